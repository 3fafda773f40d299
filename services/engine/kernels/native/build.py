"""Finds the compiled kernels, or compiles them: into the package when it is built or installed, else into a cache.

The build hook of wheels (tools/build_kernels.py) runs this before anything is installed: standard library only.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

SOURCE_FOLDER = Path(__file__).parent
PREBUILT_FOLDER = SOURCE_FOLDER / "prebuilt"
"""Where wheels and editable installs have the compiled kernels."""
UNITS = (
    "kernels.cpp",
    "decoder.cpp",
    "decoder_head.cpp",
    "stages.cpp",
    "sampling.cpp",
    "page_io.cpp",
    "exponents.cpp",
)
# No contraction: a * b + c is fused where the source says so and nowhere else, so results do not depend on inlining.
# No traps: nobody reads the floating-point exception flags, and a loop with a choice in it can become vectors.
FLOAT_FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
COMMON_FLAGS = ("-std=c++17", "-O3", *FLOAT_FLAGS, "-fPIC", "-shared", "-pthread")
# GCC regroups and delays additions of the innermost loops, which then need more registers than there are: half the
# speed.
GCC_FLAGS = ("-fno-tree-ter", "-fno-tree-reassoc")
# The C++ library is linked in, so that glibc is all that a machine must have; what the kernels do not use is left out.
LINK_FLAGS = ("-static-libstdc++", "-Wl,--version-script=exports.map", "-Wl,--gc-sections")
COMPILE_TIMEOUT_S = 600.0
"""20 s on an idle machine; minutes on one where ten processes wait for each core."""


class KernelsUnavailable(Exception):
    """There are no native kernels for this machine; the message is a sentence that says why."""


@dataclass(frozen=True, kw_only=True)
class Level:
    """An instruction set that the kernels have a form for."""

    name: str
    processor_flags: frozenset[str]
    """As /proc/cpuinfo names them."""
    compiler_flags: tuple[str, ...]


AVX2 = Level(
    name="avx2",
    processor_flags=frozenset({"avx2", "fma", "f16c", "bmi2"}),
    compiler_flags=("-mavx2", "-mfma", "-mf16c", "-mbmi2"),
)
AVX512_VNNI = Level(
    name="avx512-vnni",
    processor_flags=AVX2.processor_flags | {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni"},
    compiler_flags=(*AVX2.compiler_flags, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"),
)
LEVELS = (AVX512_VNNI, AVX2)
"""Best first."""


def supported_levels(cpuinfo: Path = Path("/proc/cpuinfo")) -> tuple[Level, ...]:
    """The levels that this processor can run, best first; none where the system does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
    except OSError:
        return ()
    flags = next((set(line.partition(":")[2].split()) for line in lines if line.startswith("flags")), set[str]())
    return tuple(level for level in LEVELS if level.processor_flags <= flags)


def buildable_levels() -> tuple[Level, ...]:
    """The levels that a compiler on this machine has code for, whatever the processor."""
    return LEVELS if (platform.system(), platform.machine()) == ("Linux", "x86_64") else ()


def found_library(level: Level, cache_dir: Path | None = None) -> Path | None:
    """The compiled library of these very sources, from the package or from `cache_dir`."""
    folders = (PREBUILT_FOLDER,) if cache_dir is None else (PREBUILT_FOLDER, cache_dir)
    paths = (folder / library_name(level) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def built_library(level: Level, cache_dir: Path) -> Path:
    """The compiled library, found or built into `cache_dir` in some 20 s. Raises KernelsUnavailable."""
    if (found := found_library(level, cache_dir)) is not None:
        return found
    path = cache_dir / library_name(level)
    compile_library(level, path)
    return path


def prebuilt_library(level: Level) -> Path:
    """The compiled library in the package, built if it is not there; what older sources left there is removed."""
    path = PREBUILT_FOLDER / library_name(level)
    for other in PREBUILT_FOLDER.glob(f"stagemesh-kernels-{level.name}-*.so"):
        if other != path and len(other.name) == len(path.name):
            other.unlink()
    if not path.is_file():
        compile_library(level, path)
    return path


def library_name(level: Level) -> str:
    """Changes with the sources and the flags, so that a library never serves others than its own sources."""
    return f"stagemesh-kernels-{level.name}-{_fingerprint(level)}.so"


def find_compiler() -> list[str] | None:
    """The command of the system's C++ compiler, or the one that `$CXX` names."""
    if named := os.environ.get("CXX"):
        return shlex.split(named)
    found = next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    return None if found is None else [found]


def _fingerprint(level: Level) -> str:
    digest = hashlib.sha256(" ".join((*COMMON_FLAGS, *GCC_FLAGS, *LINK_FLAGS, *level.compiler_flags)).encode())
    for source in sorted(path for path in SOURCE_FOLDER.iterdir() if path.suffix in {".h", ".cpp", ".map"}):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def compile_library(level: Level, path: Path) -> None:
    """Compile beside `path` and move it there, so that nobody loads half a file. Raises KernelsUnavailable."""
    compiler = find_compiler()
    if compiler is None:
        raise KernelsUnavailable(
            "there is no C++ compiler (g++, c++ or clang++) to build the native kernels with; install one, e.g. g++"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            flags = (*COMMON_FLAGS, *(GCC_FLAGS if _is_gcc(compiler) else ()), *level.compiler_flags)
            command = [*compiler, *flags, *UNITS, "-o", str(made), *LINK_FLAGS]
            result = subprocess.run(
                command, cwd=SOURCE_FOLDER, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
            )
            if result.returncode:
                said = result.stderr.strip()[-2000:]
                raise KernelsUnavailable(f"{compiler[0]} cannot build the native kernels: {said}")
            made.replace(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelsUnavailable(f"the native kernels cannot be built in {path.parent}: {error}") from None


def _is_gcc(compiler: list[str]) -> bool:
    result = subprocess.run([*compiler, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return "Free Software Foundation" in result.stdout
