"""transformers on PyTorch, weights in the float that is the fastest here."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.machine import fastest_float
from benchmarks.peers.cache import peers_dir
from benchmarks.peers.checkpoint import hugging_face_folder
from benchmarks.peers.environment import installed_versions, make_environment
from benchmarks.peers.worker import Worker
from benchmarks.peers.worker_contender import WorkerContender

FAMILY = "transformers"
REQUIREMENTS = ("torch==2.13.0", "transformers==5.24.0")
DTYPES = {"bf16": "bfloat16", "fp32": "float32"}


def contenders() -> list[WorkerContender]:
    short = fastest_float()
    return [
        WorkerContender(
            name=f"transformers {short}",
            family=FAMILY,
            install=_install,
            versions=_versions,
            start=partial(_start, DTYPES[short]),
        )
    ]


def _python() -> Path:
    return make_environment(FAMILY, REQUIREMENTS)


def _install() -> None:
    _python()
    hugging_face_folder()


def _versions() -> dict[str, str]:
    return installed_versions(_python(), ("transformers", "torch"))


def _start(dtype: str, threads: int) -> Worker:
    log = peers_dir() / FAMILY / f"{dtype}.log"
    return Worker(_python(), "transformers_worker.py", [hugging_face_folder(), dtype], threads, log)
