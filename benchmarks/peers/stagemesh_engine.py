"""Stagemesh itself: the engine core in process, native kernels."""

from __future__ import annotations

import sys
from importlib.metadata import version

from benchmarks.peers.cache import peers_dir
from benchmarks.peers.checkpoint import default_model
from benchmarks.peers.worker import Worker
from benchmarks.peers.worker_contender import WorkerContender

NAME = "Stagemesh"


def contenders() -> list[WorkerContender]:
    return [WorkerContender(name=NAME, family="stagemesh", install=_install, versions=_versions, start=_start)]


def _install() -> None:
    default_model()


def _versions() -> dict[str, str]:
    return {"stagemesh": version("stagemesh")}


def _start(threads: int) -> Worker:
    log = peers_dir() / "stagemesh.log"
    return Worker(sys.executable, "stagemesh_worker.py", [], threads, log)
