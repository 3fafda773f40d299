"""benchmarks/lock.py: one benchmark at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.lock import ROOT, benchmark_lock, lock_path

HOLDER = """
import sys
from pathlib import Path
from benchmarks.lock import benchmark_lock
with benchmark_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_benchmark_waits_until_the_first_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError, match=f"process {holder.pid}"), benchmark_lock(path, timeout_s=0.0):
            pass
        holder.kill()
    with benchmark_lock(path, timeout_s=30.0):
        assert path.read_text().startswith("process ")
    assert path.read_text() == ""
    assert capsys.readouterr().err == ""


def test_the_one_who_waits_is_told_for_whom(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "lock"
    with benchmark_lock(path), pytest.raises(TimeoutError), benchmark_lock(path, timeout_s=0.5):
        pass
    assert f"waiting for {path}, held by process " in capsys.readouterr().err


def test_linked_work_trees_share_the_lock_of_the_main_one(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    for folder in (main / "benchmarks", main / ".git" / "worktrees" / "linked", linked / "benchmarks"):
        folder.mkdir(parents=True)
    (linked / ".git").write_text(f"gitdir: {main}/.git/worktrees/linked\n")
    assert lock_path(linked) == lock_path(main) == main / "benchmarks" / "lock"
