"""Compiles the kernels for this processor, once per version, into a folder of the user's cache."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from stagemesh.runtime.config import ConfigError

SOURCE_FOLDER = Path(__file__).parent
UNITS = ("kernels.cpp", "decoder.cpp", "sampling.cpp")
# No contraction: a * b + c is fused where the source says so and nowhere else, so results do not depend on inlining.
# No traps: nobody reads the floating-point exception flags, and a loop with a choice in it can become vectors.
FLOAT_FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
COMMON_FLAGS = ("-std=c++17", "-O3", *FLOAT_FLAGS, "-fPIC", "-shared", "-pthread")
# GCC regroups and delays additions of the innermost loops, which then need more registers than there are: half the
# speed.
GCC_FLAGS = ("-fno-tree-ter", "-fno-tree-reassoc")
LINK_FLAGS = ("-static-libstdc++", "-static-libgcc")
COMPILE_TIMEOUT_S = 120.0


class KernelsUnavailable(ConfigError):
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


def built_library(level: Level, cache_dir: Path) -> Path:
    """The compiled library, from `cache_dir` or built into it in some 20 s. Raises KernelsUnavailable."""
    path = cache_dir / f"stagemesh-kernels-{level.name}-{_fingerprint(level)}.so"
    if not path.is_file():
        _compile(level, path)
    return path


def _fingerprint(level: Level) -> str:
    digest = hashlib.sha256(" ".join((*COMMON_FLAGS, *GCC_FLAGS, *LINK_FLAGS, *level.compiler_flags)).encode())
    for source in sorted(path for path in SOURCE_FOLDER.iterdir() if path.suffix in {".h", ".cpp"}):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compile(level: Level, path: Path) -> None:
    """Compile beside the target and move it there, so that nobody loads half a file."""
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("g++", "c++", "clang++"))), None)
    if compiler is None:
        raise KernelsUnavailable("there is no C++ compiler (g++, c++ or clang++) to build the native kernels with")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            flags = (*COMMON_FLAGS, *(GCC_FLAGS if _is_gcc(compiler) else ()), *level.compiler_flags)
            command = [compiler, *flags, *UNITS, "-o", str(made), *LINK_FLAGS]
            result = subprocess.run(
                command, cwd=SOURCE_FOLDER, capture_output=True, text=True, timeout=COMPILE_TIMEOUT_S, check=False
            )
            if result.returncode:
                raise KernelsUnavailable(f"{compiler} cannot build the native kernels: {result.stderr.strip()[-2000:]}")
            made.replace(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise KernelsUnavailable(f"the native kernels cannot be built in {path.parent}: {error}") from None


def _is_gcc(compiler: str) -> bool:
    result = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=10, check=False)
    return "Free Software Foundation" in result.stdout
