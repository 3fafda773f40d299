"""What the engine would compute with: instruction set, compiler, PyTorch, and the backend that follows from them."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from services.engine.config import EngineConfig
from services.engine.kernels.native.build import find_compiler, found_library, supported_levels
from stagemesh.cli.doctor.finding import Finding, fail, ok, risk
from stagemesh.models.store import model_dir
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig

INSTALL_COMPILER = "install a C++ compiler, e.g. the system's package g++"
INSTALL_TORCH = "pip install 'stagemesh[torch]'"


@dataclass(frozen=True, kw_only=True)
class Means:
    """What there is to compute with; empty strings for what there is not."""

    level: str
    """The best instruction set that both the processor and the native kernels have."""
    library: str
    """Where the kernels for it are compiled."""
    compiler: str
    """Its own words on its version."""
    torch: str


def check_engine(mesh: MeshConfig, config_path: Path | None) -> list[Finding]:
    """Everything that decides which backend computes, and which one that is."""
    config, means = read_source(config_path).section("engine", EngineConfig), find_means(mesh)
    return [instruction_set(means), compiler(means), torch_build(means), backend(config.backend, means)]


def find_means(mesh: MeshConfig) -> Means:
    level = next(iter(supported_levels()), None)
    library = found_library(level, model_dir(mesh) / "kernels") if level else None
    return Means(
        level=level.name if level else "",
        library=str(library or ""),
        compiler=_compiler_version(),
        torch=_torch_version(),
    )


def backend(asked: str, means: Means) -> Finding:
    """The backend that the engine takes when `engine.backend` is `asked`."""
    name = "engine backend"
    if asked == "torch":
        return ok(name, "torch, as configured") if means.torch else fail(name, "torch, not installed", INSTALL_TORCH)
    if means.library:
        return ok(name, f"native on {means.level}, compiled: {means.library}")
    if means.level and means.compiler:
        return ok(name, f"native on {means.level}, compiled when an engine first starts, in some 20 s")
    lacking = "no C++ compiler for the native kernels" if means.level else "no native kernels for this processor"
    if asked == "auto" and means.torch:
        fix = INSTALL_COMPILER if means.level else "serve from x86-64 Linux with AVX2"
        return risk(name, f"torch, several times slower: {lacking}", fix)
    fixes = [INSTALL_COMPILER] if means.level else []
    if asked == "auto":
        fixes.append(INSTALL_TORCH)
    return fail(name, lacking, ", or ".join(fixes) or "set engine.backend to auto")


def instruction_set(means: Means) -> Finding:
    if not means.level:
        return risk("instruction set", "none that the native kernels have", "serve from x86-64 Linux with AVX2")
    return ok("instruction set", means.level)


def compiler(means: Means) -> Finding:
    if means.compiler or means.library or not means.level:
        return ok("C++ compiler", means.compiler or "none, and none needed")
    return risk("C++ compiler", "none", INSTALL_COMPILER)


def torch_build(means: Means) -> Finding:
    """The installed torch is the pinned one, read without importing it."""
    wanted = {line.partition(";")[0].removeprefix("torch==").strip() for line in _requirements("torch==")}
    if means.torch and means.torch.partition("+")[0] not in wanted:
        return risk("torch", f"{means.torch}, pinned is {' '.join(wanted)}", "make clean setup")
    return ok("torch", means.torch or "not installed; the native kernels need none")


def _requirements(start: str) -> list[str]:
    return [line for line in requires("stagemesh") or [] if line.startswith(start)]


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def _compiler_version() -> str:
    command = find_compiler()
    if command is None:
        return ""
    try:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.partition("\n")[0].strip() or command[0]
