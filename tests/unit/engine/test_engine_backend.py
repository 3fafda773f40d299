"""Which backend computes, and what is said when it is not the one asked for."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from services.engine.backend import load_backend
from services.engine.config import EngineConfig
from services.engine.kernels.native import build
from services.engine.kernels.native.build import (
    AVX2,
    AVX512_VNNI,
    KernelsUnavailable,
    built_library,
    supported_levels,
)
from services.engine.runner import Sizes
from stagemesh.models.errors import UnsupportedModel
from stagemesh.models.model_config import load_model_config
from stagemesh.models.store import ModelFiles

SIZES = Sizes(context_length=128, num_pages=16, num_threads=1)


@pytest.fixture
def without_shipped_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a checkout that was installed without a compiler."""
    monkeypatch.setattr(build, "PREBUILT_FOLDER", tmp_path / "none")


@pytest.fixture
def without_compiler(without_shipped_library: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def cpuinfo(folder: Path, flags: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    return path


def test_levels_follow_from_the_processors_flags(tmp_path: Path) -> None:
    avx2 = "sse avx2 fma f16c bmi2"
    avx512 = f"{avx2} avx512f avx512bw avx512vl avx512dq"
    assert supported_levels(cpuinfo(tmp_path, "sse avx2")) == ()
    assert supported_levels(cpuinfo(tmp_path, avx2)) == (AVX2,)
    assert supported_levels(cpuinfo(tmp_path, avx512)) == (AVX2,)
    assert supported_levels(cpuinfo(tmp_path, f"{avx512} avx512_vnni")) == (AVX512_VNNI, AVX2)
    assert supported_levels(tmp_path / "missing") == ()


@pytest.mark.usefixtures("without_compiler")
def test_without_a_compiler_the_sentence_says_so(tmp_path: Path) -> None:
    with pytest.raises(KernelsUnavailable, match=r"no C\+\+ compiler"):
        built_library(AVX2, tmp_path)


@pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")
@pytest.mark.usefixtures("without_shipped_library")
def test_a_library_that_was_not_shipped_is_compiled_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "UNITS", ("exponents.cpp",))  # a second instead of a minute
    built = built_library(AVX2, tmp_path)
    ctypes.CDLL(str(built))
    monkeypatch.setenv("CXX", "false")
    assert built_library(AVX2, tmp_path) == built
    assert list(tmp_path.iterdir()) == [built]


@pytest.mark.usefixtures("without_shipped_library")
def test_what_the_compiler_says_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(KernelsUnavailable, match="false cannot build"):
        built_library(AVX2, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_native_refuses_widths_that_its_kernels_do_not_take(default_model_files: ModelFiles) -> None:
    config = replace(load_model_config(default_model_files), ffn_size=100)
    with pytest.raises(UnsupportedModel, match="ffn size that is a multiple of 32, not 100"):
        load_backend(default_model_files, config, EngineConfig(backend="native", threads=1), SIZES)


@pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")
def test_auto_takes_the_native_kernels_where_they_run(default_model_files: ModelFiles) -> None:
    config = load_model_config(default_model_files)
    backend = load_backend(default_model_files, config, EngineConfig(backend="auto", threads=1), SIZES)
    assert backend.name == f"native-{supported_levels()[0].name}"


@pytest.mark.usefixtures("without_compiler")
def test_auto_computes_with_torch_where_kernels_cannot_be_built(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    files = ModelFiles(name="m", source="", kind="gguf", path=default_model_files.path, cache_dir=tmp_path)
    config = load_model_config(files)
    assert load_backend(files, config, EngineConfig(backend="auto", threads=1), SIZES).name == "torch-cpu"
