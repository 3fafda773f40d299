"""onnxruntime-genai with weights in 4 bits."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.peers.cache import peers_dir, run_logged, step
from benchmarks.peers.checkpoint import hugging_face_folder
from benchmarks.peers.environment import installed_versions, make_environment
from benchmarks.peers.worker import Worker
from benchmarks.peers.worker_contender import WorkerContender

FAMILY = "onnxruntime"
REQUIREMENTS = ("torch==2.13.0", "onnxruntime-genai==0.18.0", "onnx", "onnx-ir", "transformers<5.6")
PACKAGES = ("onnxruntime-genai", "onnxruntime", "onnx", "transformers")
OPTIONS = ("int4_block_size=32", "int4_accuracy_level=4")
"""Groups as in the model's file; products of 8-bit activations, as the other quantized contenders do."""


def contenders() -> list[WorkerContender]:
    return [WorkerContender(name="onnxruntime int4", family=FAMILY, install=_install, versions=_versions, start=_start)]


def _python() -> Path:
    return make_environment(FAMILY, REQUIREMENTS)


def _install() -> None:
    python, source, folder = _python(), hugging_face_folder(), peers_dir() / FAMILY
    command: list[str | Path] = [
        python, "-m", "onnxruntime_genai.models.builder", "--input", source, "--output", folder / "int4",
        "--precision", "int4", "--execution_provider", "cpu", "--cache_dir", folder / "cache",
        "--extra_options", *OPTIONS,
    ]  # fmt: skip
    step(folder, "build-int4", list(OPTIONS), partial(run_logged, folder, "build-int4", command))


def _versions() -> dict[str, str]:
    return installed_versions(_python(), PACKAGES)


def _start(threads: int) -> Worker:
    folder = peers_dir() / FAMILY
    return Worker(_python(), "onnxruntime_worker.py", [folder / "int4"], threads, folder / "int4.log")
