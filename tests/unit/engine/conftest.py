"""Under tools/sanitize_kernels.py the native kernels are built with sanitizers before any test loads them."""

from __future__ import annotations

import os

from services.engine.kernels.native import build

SANITIZERS = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

if os.environ.get("STAGEMESH_SANITIZE_KERNELS"):
    # Only this process has the sanitizers' runtimes loaded, not the compilers that it starts.
    os.environ.pop("LD_PRELOAD", None)
    optimized = tuple("-O1" if flag == "-O3" else flag for flag in build.COMMON_FLAGS)
    build.COMMON_FLAGS = (*optimized, *SANITIZERS)  # type: ignore[assignment]  # a longer tuple
    build.LINK_FLAGS = ()  # type: ignore[assignment]
    build.COMPILE_TIMEOUT_S = 900.0
