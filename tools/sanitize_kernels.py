"""Runs the native kernels' tests on a library built with AddressSanitizer and UndefinedBehaviorSanitizer.

python tools/sanitize_kernels.py [pytest's arguments]

Every level that this processor has is built and run; the first error ends the run with the sanitizer's report.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

TESTS = (
    "tests/unit/engine/test_engine_exponent_packing.py",
    "tests/unit/engine/test_engine_head_screen.py",
    "tests/unit/engine/test_engine_native_adapters.py",
    "tests/unit/engine/test_engine_native_kernels.py",
    "tests/unit/engine/test_engine_native_shapes.py",
    "tests/unit/engine/test_engine_native_stages.py",
    "tests/unit/engine/test_engine_page_codec.py",
    "tests/unit/engine/test_engine_page_io.py",
)


def main() -> int:
    compiler = shutil.which("g++")
    if compiler is None:
        print("there is no g++, whose sanitizers this takes")
        return 1
    runtimes = [library_path(compiler, name) for name in ("libasan.so", "libubsan.so")]
    environment = {
        **os.environ,
        "CXX": compiler,
        "STAGEMESH_SANITIZE_KERNELS": "1",  # read by tests/unit/engine/conftest.py
        "LD_PRELOAD": " ".join(runtimes),  # the interpreter itself is not built with them
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",  # the interpreter does not free everything at its end
        "UBSAN_OPTIONS": "print_stacktrace=1",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--timeout=1800", *TESTS, *sys.argv[1:]]
    return subprocess.run(command, env=environment, check=False).returncode


def library_path(compiler: str, name: str) -> str:
    found = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
