"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

VECTOR_FLAGS = re.compile(r"^(avx|amx|fma|f16c|vaes|sse4_2|asimd|sve|bf16|i8mm)")


def describe_machine() -> dict[str, object]:
    """Processor, vector instructions, cores that we may use, memory, system, and the load at this moment."""
    return {
        "cpu": cpu_model(),
        "vectors": vector_level(cpu_flags()),
        "flags": [flag for flag in cpu_flags() if VECTOR_FLAGS.match(flag)],
        "cores": len(os.sched_getaffinity(0)),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 1_000_000,
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
    }


def cpu_model() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def cpu_flags() -> list[str]:
    return (_cpuinfo("flags") or _cpuinfo("Features")).split()


def vector_level(flags: list[str]) -> str:
    """The name of the best level among those that engines have kernels for."""
    levels = (
        ("amx-int8", "amx_int8"), ("avx512-bf16", "avx512_bf16"), ("avx512-vnni", "avx512_vnni"),
        ("avx512", "avx512f"), ("avx-vnni", "avx_vnni"), ("avx2", "avx2"),
    )  # fmt: skip
    return next((name for name, flag in levels if flag in flags), platform.machine())


def fastest_float() -> str:
    """`bf16` where the processor multiplies it; elsewhere libraries convert bit by bit, and `fp32` is the faster."""
    return "bf16" if {"avx512_bf16", "amx_bf16", "bf16"} & set(cpu_flags()) else "fp32"


def machine_slug() -> str:
    """For file names, e.g. `amd-epyc-avx2`: virtual machines tell a processor's name without its generation."""
    name = re.sub(r"\((r|tm)\)|\bcpu\b|\bprocessor\b|@.*", " ", cpu_model().lower())
    return re.sub(r"[^a-z0-9]+", "-", f"{name} {vector_level(cpu_flags())}").strip("-")


def _cpuinfo(key: str) -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == key), "")
