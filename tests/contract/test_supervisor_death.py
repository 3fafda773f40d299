import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stagemesh.cli.supervisor.guardian_link import GuardianLink
from stagemesh.cli.supervisor.leftovers import end_leftovers
from stagemesh.cli.supervisor.mesh_file import (
    MeshRecord,
    ProcessRecord,
    ProcessState,
    is_same_process,
    process_started_at,
    read_mesh,
    write_mesh,
)
from stagemesh.cli.supervisor.state_dir import StateDir
from tests.contract.supervised import becomes, eventually

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("supervise_fakes.py")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "300"], start_new_session=True)


@asynccontextmanager
async def own_supervisor(folder: Path, *names: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, StateDir]]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(SCRIPT), str(folder), *names, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        yield process, StateDir(folder)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's parent-death signal is Linux; see the guardian below")
async def test_children_end_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    async with own_supervisor(tmp_path, "a", "b") as (supervisor, state):
        children = [await becomes(state, name, ProcessState.READY) for name in ("a", "b")]
        supervisor.kill()
        await supervisor.wait()
        await eventually(
            lambda: not any(is_same_process(child.pid, child.started_at) for child in children), "the children end"
        )
        stale = read_mesh(state.mesh_file)
        assert stale is not None
        assert not stale.running


async def test_a_second_supervisor_on_the_same_state_says_so_and_ends(tmp_path: Path) -> None:
    async with own_supervisor(tmp_path, "a") as (_, state):
        await becomes(state, "a", ProcessState.READY)
        second = await asyncio.create_subprocess_exec(
            sys.executable,
            str(SCRIPT),
            str(tmp_path),
            "a",
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=asyncio.subprocess.PIPE,
        )
        _, said = await second.communicate()
        assert second.returncode == 1
        assert b"is running; `stagemesh down` stops it, `--state DIR` starts another one beside it" in said


async def test_the_guardian_ends_what_is_left_when_its_pipe_breaks() -> None:
    child, ended = sleeper(), sleeper()
    link = GuardianLink(grace_s=5.0)
    try:
        link.update({child.pid, ended.pid})
        link.update({child.pid})
        assert link._process.stdin is not None
        link._process.stdin.close()  # what the kernel does for a supervisor that dies
        assert await asyncio.to_thread(child.wait, 10) == -signal.SIGTERM
        assert ended.poll() is None
    finally:
        for each in (child, ended):
            each.kill()
            each.wait()
        link._process.wait(10)


async def test_the_guardian_leaves_everything_alone_after_an_orderly_stop() -> None:
    child = sleeper()
    try:
        link = GuardianLink(grace_s=1.0)
        link.update({child.pid})
        link.close()
        assert child.poll() is None
    finally:
        child.kill()
        child.wait()


async def test_leftovers_of_a_dead_supervisor_are_ended_and_strangers_are_not() -> None:
    left, stranger = sleeper(), sleeper()
    try:
        record = MeshRecord(
            processes=(
                ProcessRecord(
                    name="left", state=ProcessState.READY, pid=left.pid, started_at=process_started_at(left.pid)
                ),
                ProcessRecord(name="reused", state=ProcessState.READY, pid=stranger.pid, started_at=1.0),
            )
        )
        assert end_leftovers(record, grace_s=5.0) == ["left"]
        assert left.wait(10) == -signal.SIGTERM
        assert stranger.poll() is None
    finally:
        for each in (left, stranger):
            each.kill()
            each.wait()


def test_a_record_from_before_a_reboot_counts_as_not_running(tmp_path: Path) -> None:
    record = MeshRecord(supervisor_pid=os.getpid(), supervisor_started_at=1.0)
    write_mesh(tmp_path / "mesh.json", record)
    read = read_mesh(tmp_path / "mesh.json")
    assert read == record
    assert not record.running
    assert (tmp_path / "mesh.json").stat().st_mode & 0o777 == 0o600


def test_a_damaged_record_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "mesh.json").write_text("{ half")
    assert read_mesh(tmp_path / "mesh.json") is None
