"""One benchmark at a time on a machine: they share the cores, so two at once measure each other.

    with benchmark_lock():
        measure()

The lock is `benchmarks/lock` (git ignores it); work trees of one repository share the lock of its main work tree.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
POLL_S = 1.0


@contextmanager
def benchmark_lock(path: Path | None = None, timeout_s: float = 3600.0) -> Iterator[None]:
    """Hold the lock (of `path`, by default this repository's); says on stderr for whom it waits.

    Raises TimeoutError when another process holds it for `timeout_s`. The kernel frees it when its holder dies.
    """
    path = path or lock_path(ROOT)
    with path.open("a+") as file:
        _acquire(file, path, timeout_s)
        file.truncate(0)
        file.write(f"process {os.getpid()}: {' '.join(sys.argv)}\n")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)  # closing the file frees the lock


@contextmanager
def no_lock() -> Iterator[None]:
    """For figures that bear company, such as processor time of one thread."""
    yield


def lock_path(root: Path) -> Path:
    """`benchmarks/lock` of the main work tree, of which `root` may be a linked one (its `.git` is a file then)."""
    dot_git = root / ".git"
    if dot_git.is_file():
        git_dir = Path(dot_git.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
        main = git_dir.parents[2]  # <main>/.git/worktrees/<name>
        if (main / "benchmarks").is_dir():
            return main / "benchmarks" / "lock"
    return root / "benchmarks" / "lock"


def _acquire(file: IO[str], path: Path, timeout_s: float) -> None:
    deadline_s, told = time.monotonic() + timeout_s, False
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"{path} is held by {_holder(file)} for over {timeout_s:.0f} s") from None
        if not told:
            print(f"waiting for {path}, held by {_holder(file)}", file=sys.stderr, flush=True)
            told = True
        time.sleep(POLL_S)


def _holder(file: IO[str]) -> str:
    file.seek(0)
    return file.read().strip() or "another benchmark"
