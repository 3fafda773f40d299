"""The machine: interpreter, processor, memory, disk, clock, limits."""

from __future__ import annotations

import platform
import resource
import shutil
import sys
import time
from pathlib import Path

import psutil

from stagemesh.cli.doctor.finding import Finding, fail, ok, risk
from stagemesh.cli.supervisor.state_dir import StateDir

MIN_PYTHON = (3, 11)
MIN_FREE_MEMORY_BYTES = 2 * 1024**3
"""The default model in float32, its KV pages and the other processes."""
MIN_FREE_DISK_BYTES = 2 * 1024**3
MIN_OPEN_FILES = 4096
SYSTEMS = {("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64"), ("Darwin", "x86_64")}
VECTOR_FLAGS = ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "asimd", "i8mm", "bf16")
EARLIEST_YEAR = 2026


def check_python() -> Finding:
    version = platform.python_version()
    if sys.version_info < MIN_PYTHON:
        return fail("python", version, "use Python 3.11 or newer, e.g. make PYTHON=python3.12 setup")
    return ok("python", f"{version}, {sys.executable}")


def check_platform() -> Finding:
    system, machine = platform.system(), platform.machine()
    if (system, machine) not in SYSTEMS:
        return risk("platform", f"{system} {machine}", "Linux on x86-64 or arm64 is what is tested")
    if system == "Darwin":
        return risk("platform", f"macOS {machine}", "macOS is meant for development; serve from Linux")
    return ok("platform", f"{system} {machine}")


def check_processor() -> Finding:
    cores = len(psutil.Process().cpu_affinity()) if sys.platform == "linux" else psutil.cpu_count() or 1
    flags = _cpu_flags()
    known = [flag for flag in VECTOR_FLAGS if flag in flags]
    detail = f"{cores} cores; {' '.join(known) or 'vector features unknown'}"
    if flags and not {"avx2", "asimd"} & set(known):
        return risk("processor", detail, "without AVX2 or NEON the engine is several times slower")
    if cores < 2:
        return risk("processor", detail, "with one core the engine and the other services take turns; give it two")
    return ok("processor", detail)


def _cpu_flags() -> set[str]:
    path = Path("/proc/cpuinfo")
    if not path.exists():
        return set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith(("flags", "Features")):
            return set(line.partition(":")[2].split())
    return set()


def check_memory() -> Finding:
    memory = psutil.virtual_memory()
    detail = f"{memory.available / 1e9:.1f} of {memory.total / 1e9:.1f} GB free"
    if memory.available < MIN_FREE_MEMORY_BYTES:
        return risk(
            "memory",
            detail,
            f"free {MIN_FREE_MEMORY_BYTES >> 30} GiB, or lower engine.kv_pool_tokens in stagemesh.yaml",
        )
    return ok("memory", detail)


def check_disk(state: StateDir) -> Finding:
    folder = next(path for path in (state.path, *state.path.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    detail = f"{free / 1e9:.1f} GB free for {state.path}"
    if free < MIN_FREE_DISK_BYTES:
        return risk("disk", detail, "free some space, or choose another place with --state")
    return ok("disk", detail)


def check_clock() -> Finding:
    now = time.gmtime()
    detail = time.strftime("%Y-%m-%d %H:%M:%S UTC", now)
    if now.tm_year < EARLIEST_YEAR:
        return fail("clock", detail, "set the clock: deadlines, TTLs and request IDs depend on it")
    return ok("clock", detail)


def check_open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = f"{soft} per process (at most {hard})"
    if 0 <= soft < MIN_OPEN_FILES:
        return risk("open files", detail, f"raise it: ulimit -n {MIN_OPEN_FILES}")
    return ok("open files", detail)


def check_huge_pages() -> Finding:
    path = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not path.exists():
        return ok("huge pages", "not a setting of this system")
    setting = path.read_text(encoding="ascii")
    chosen = setting.partition("[")[2].partition("]")[0]
    if chosen == "never":
        return risk("huge pages", "never", f"echo madvise > {path} (as root): reading weights is up to twice as fast")
    return ok("huge pages", chosen)
