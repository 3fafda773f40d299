"""`stagemesh diagnose` on twelve injected faults: does it name the right one, and how long does that take.

python benchmarks/diagnose_faults.py [--json] [--only NAME,NAME]

Every fault is real: processes are stopped or made slow by signals, a Valkey server runs with a clock of its own, a
model has NaN in its weights, a port is held, a quota refuses files; a tokenizer that hangs and an engine without memory
come from `stagemesh chaos`. Each fault is cleared and the mesh found healthy before the next.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import grpc
import yaml
from gguf import GGUFReader

from benchmarks.own_mesh import OwnMesh, wait_until
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.embedded import valkey
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

WITHIN_S = 60.0
CLOCK_SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
int gettimeofday(struct timeval *at, void *zone) {
  int (*real)(struct timeval *, void *) = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
  int done = real(at, zone);
  at->tv_sec += 120;
  return done;
}
int clock_gettime(clockid_t which, struct timespec *at) {
  int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int done = real(which, at);
  if (which == CLOCK_REALTIME) at->tv_sec += 120;
  return done;
}
"""
CONFIG = {
    "serve": {"smollm2-135m-instruct": 2},
    "supervisor": {"stuck_after_s": 120},
    "engine": {"kv_pool_tokens": 16_384},
}


@dataclass(frozen=True)
class Result:
    fault: str
    named: str | None
    kind: str | None
    seconds: float
    ok: bool


class Mesh(OwnMesh):
    def command(self, *arguments: str) -> str:
        return self._command(*arguments)

    @property
    def state(self) -> Path:
        return self._state

    @property
    def address(self) -> str:
        """Of the gateway's gRPC front."""
        return f"127.0.0.1:{self._ports[0]}"

    def pid(self, name: str) -> int:
        record = json.loads((self._state / "mesh.json").read_text())
        return next(process["pid"] for process in record["processes"] if process["name"] == name)


def diagnose(*arguments: str, no_files: bool = False) -> dict[str, Any]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STAGEMESH_")}
    command = [sys.executable, "-m", "stagemesh.cli.main", "diagnose", "--json", *arguments]
    started_s = time.monotonic()
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=2 * WITHIN_S,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        preexec_fn=_refuse_files if no_files else None,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"diagnose ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return {**json.loads(done.stdout), "seconds": round(time.monotonic() - started_s, 1)}


def _refuse_files() -> None:
    """As a full disk or a used-up quota does: no file takes a byte."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def slowed(pid: int, *, stop_s: float, run_s: float) -> Iterator[None]:
    """The process runs for a small share of the time."""
    ending = threading.Event()

    def alternate() -> None:
        while not ending.is_set():
            os.kill(pid, signal.SIGSTOP)
            ending.wait(stop_s)
            os.kill(pid, signal.SIGCONT)
            ending.wait(run_s)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def injected(mesh: Mesh, *fault: str) -> Iterator[None]:
    mesh.command("chaos", "inject", *fault)
    try:
        yield
    finally:
        mesh.command("chaos", "clear")


@contextmanager
def flooded(mesh: Mesh, num_requests: int) -> Iterator[None]:
    """Far more requests than run at once; they are cancelled at the end."""
    request = gateway_pb2.InferenceRequest(
        prompt="Once upon a time", sampling=common_pb2.SamplingParams(max_tokens=400, ignore_eos=True)
    )
    metadata = (("authorization", "Bearer dev"),)

    async def ask(ending: threading.Event) -> None:
        async with grpc.aio.insecure_channel(mesh.address) as channel:
            stub = gateway_pb2_grpc.GatewayServiceStub(channel)
            calls = [
                stub.Complete(gateway_pb2.CompleteRequest(request=request), timeout=300, metadata=metadata)
                for _ in range(num_requests)
            ]
            await asyncio.to_thread(ending.wait)
            for call in calls:
                call.cancel()

    ending = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(ask(ending)))
    thread.start()
    time.sleep(2.0)  # for the requests to have come in
    try:
        yield
    finally:
        ending.set()
        thread.join()


@contextmanager
def config_file(folder: Path, content: dict[str, Any] | str) -> Iterator[Path]:
    path = folder / "diagnosed.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    yield path


@contextmanager
def skewed_valkey(folder: Path) -> Iterator[str]:
    """A Valkey whose clock is two minutes ahead: a library in front of the C library's changes what it reads."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(CLOCK_SHIM)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    port, password = free_port(), valkey.load_password(folder)
    command = valkey.command(folder, port, password)
    process = subprocess.Popen(command, env={**os.environ, "LD_PRELOAD": str(library)}, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(port), 20, "the skewed server")
        yield valkey.url(port, password)
    finally:
        process.terminate()
        process.wait(timeout=20)


def nan_model(folder: Path) -> Path:
    """The default model with one NaN in its last norm."""
    original = pull(read_source(environ={}).shared(MeshConfig)).path
    path = folder / "nan.gguf"
    path.write_bytes(original.read_bytes())
    tensor = next(each for each in GGUFReader(path).tensors if each.name == "output_norm.weight")
    with path.open("r+b") as file:
        file.seek(int(tensor.data_offset))
        file.write(b"\x00\x00\xc0\x7f")  # a quiet NaN in float32
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.2)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def check(fault: str, expected: Sequence[str], kind: str, said: dict[str, Any]) -> Result:
    named, seconds = said["cause"], said["seconds"]
    ok = named in expected and said["kind"] == kind and seconds < WITHIN_S
    say(f"{'ok ' if ok else 'NO '} {fault}: {named} ({said['kind']}) in {seconds:.1f} s")
    if not ok:
        say(json.dumps(said["verdicts"], indent=1))
    return Result(fault, named, said["kind"], seconds, ok)


def without_mesh(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Result]:
    """What keeps a mesh from starting, or would break it."""
    state = ("--state", str(folder / "none"))
    if wanted("bad config"):
        with config_file(folder, "gateway: {max_request_bites: 7}\n") as path:
            yield check("bad config", ["bad_config"], "infrastructure", diagnose("--config", str(path), *state))
    if wanted("DNS name missing"):
        with config_file(folder, {"addresses": {"engine": ["engine.nowhere.invalid:50053"]}}) as path:
            yield check("DNS name missing", ["dns_missing"], "network", diagnose("--config", str(path), *state))
    if wanted("port clash"):
        with socket.create_server(("127.0.0.1", 0)) as holder:
            port = str(holder.getsockname()[1])
            yield check("port clash", ["port_clash"], "network", diagnose("--grpc-port", port, *state))
    if wanted("disk full"):
        ports = ("--grpc-port", str(free_port()), "--http-port", str(free_port()))
        yield check("disk full", ["disk_full"], "infrastructure", diagnose(*ports, *state, no_files=True))
    if wanted("clock skew"):
        with skewed_valkey(folder) as url, config_file(folder, {"redis_url": url}) as path:
            ports = ("--grpc-port", str(free_port()), "--http-port", str(free_port()))
            said = diagnose("--config", str(path), *ports, *state)
            yield check("clock skew", ["clock_skew"], "infrastructure", said)


def on_mesh(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Result]:
    faults: dict[str, tuple[Sequence[str], Callable[[Mesh], AbstractContextManager[None]]]] = {
        "tokenizer hang": (["stage_hang", "process_hang"], lambda mesh: injected(mesh, "tokenize", "hang")),
        "Redis slow": (["redis_slow"], lambda mesh: slowed(mesh.pid("valkey"), stop_s=0.1, run_s=0.004)),
        "broker down": (["broker_down"], lambda mesh: stopped(mesh.pid("kafka"))),
        "engine OOM": (["engine_oom"], lambda mesh: injected(mesh, "mlp", "oom")),
        "one replica slow": (["replica_slow"], lambda mesh: slowed(mesh.pid("engine-2"), stop_s=0.2, run_s=0.02)),
        "queue flood": (["queue_flood"], lambda mesh: flooded(mesh, 150)),
    }
    if not any(map(wanted, faults)):
        return
    mesh = Mesh(folder / "mesh")
    mesh.up(CONFIG)
    try:
        for fault, (expected, inject) in faults.items():
            if wanted(fault):
                wait_until(lambda: diagnose(*where(mesh))["cause"] is None, 120, f"healthy before {fault}")
                with inject(mesh):
                    yield check(fault, expected, "infrastructure", diagnose(*where(mesh)))
    finally:
        mesh.down()


def on_nan_weights(folder: Path) -> Iterator[Result]:
    mesh = Mesh(folder / "nan-mesh")
    source = {"models": {"broken": {"source": str(nan_model(folder))}}, "default_model": "broken"}
    try:
        with contextlib.suppress(SystemExit):  # the engine refuses the model, so the mesh is not ready
            mesh.up(source)
        yield check("NaN weights", ["nan_weights"], "model", diagnose(*where(mesh)))
    finally:
        mesh.down()


def where(mesh: Mesh) -> tuple[str, str]:
    return "--state", str(mesh.state)


def run(only: Sequence[str]) -> dict[str, Any]:
    def wanted(fault: str) -> bool:
        return not only or fault in only

    with TemporaryDirectory() as name:
        folder = Path(name)
        results = [*without_mesh(folder, wanted), *on_mesh(folder, wanted)]
        results += list(on_nan_weights(folder)) if wanted("NaN weights") else []
    return {
        "faults": len(results),
        "named": sum(result.ok for result in results),
        "slowest_s": max((result.seconds for result in results), default=0.0),
        "results": [vars(result) for result in results],
    }


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    parser.add_argument("--only", default="", help="names of faults, separated by commas")
    options = parser.parse_args()
    result = run([name for name in options.only.split(",") if name])
    say(f"{result['named']} of {result['faults']} named, the slowest in {result['slowest_s']:.1f} s")
    if options.json:
        print(json.dumps(result))
    raise SystemExit(0 if result["named"] == result["faults"] else 1)


if __name__ == "__main__":
    main()
