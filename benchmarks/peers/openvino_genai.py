"""OpenVINO GenAI with weights in 8 and 4 bits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.peers.cache import peers_dir, run_logged, step
from benchmarks.peers.checkpoint import hugging_face_folder
from benchmarks.peers.environment import installed_versions, make_environment
from benchmarks.peers.worker import Worker
from benchmarks.peers.worker_contender import WorkerContender

FAMILY = "openvino"
REQUIREMENTS = ("torch==2.13.0", "openvino-genai==2026.4.1.0", "optimum-intel[openvino]")
REMOVE = ("torchvision",)  # it insists on another torch
PACKAGES = ("openvino-genai", "openvino", "optimum-intel", "nncf", "torch")
EXPORTS = {
    "int8": ("--weight-format", "int8"),
    "int4": ("--weight-format", "int4", "--group-size", "32", "--ratio", "1.0"),
}
"""Groups of 32 as in the model's file, so that int4 keeps its values. The embedding stays in 8 bits."""


def contenders() -> list[WorkerContender]:
    return [
        WorkerContender(
            name=f"OpenVINO {format_}",
            family=FAMILY,
            install=partial(_install, format_),
            versions=_versions,
            start=partial(_start, format_),
        )
        for format_ in EXPORTS
    ]


def _python() -> Path:
    return make_environment(FAMILY, REQUIREMENTS, REMOVE)


def _install(format_: str) -> None:
    python, source, folder = _python(), hugging_face_folder(), peers_dir() / FAMILY
    command: list[str | Path] = [
        python.parent / "optimum-cli", "export", "openvino", "--model", source, "--task", "text-generation-with-past",
        *EXPORTS[format_], folder / format_,
    ]  # fmt: skip
    step(folder, f"export-{format_}", list(EXPORTS[format_]), partial(run_logged, folder, f"export-{format_}", command))


def _versions() -> dict[str, str]:
    return installed_versions(_python(), PACKAGES)


def _start(format_: str, threads: int) -> Worker:
    folder = peers_dir() / FAMILY
    log = folder / f"{format_}.log"
    return Worker(_python(), "openvino_worker.py", [folder / format_], threads, log)
