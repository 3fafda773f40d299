"""A disk that takes nothing more: the processes are kept running all the same, and the files are mended afterwards."""

import errno
import io
import os
import signal
import sys
from pathlib import Path

import pytest

from stagemesh.cli.supervisor.log_file import LogFile
from stagemesh.cli.supervisor.mesh_file import ProcessState
from stagemesh.cli.supervisor.spec import ProcessSpec
from tests.contract.supervised import becomes, eventually, fake_spec, supervised

READY, BACKOFF = ProcessState.READY, ProcessState.BACKOFF


class FullStream(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def refuse(log: LogFile, data: bytes) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def answers(spec: ProcessSpec) -> bool:
    command = Path("/proc").glob("[0-9]*/cmdline")
    return any(str(spec.address.rpartition(":")[2]).encode() in _read(path).split(b"\0") for path in command)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
async def test_a_process_is_restarted_although_the_record_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = fake_spec("a")
    monkeypatch.setattr(sys, "stderr", FullStream())
    async with supervised(tmp_path, [spec]) as state:
        before = await becomes(state, "a", READY)
        state.mesh_file.unlink()
        state.mesh_file.mkdir()  # as good as a full disk: nothing can be put in its place
        os.kill(before.pid, signal.SIGKILL)
        await eventually(lambda: not os.path.exists(f"/proc/{before.pid}"), "the process has ended")
        await eventually(lambda: answers(spec), "another one is there")
        state.mesh_file.rmdir()
        after = await becomes(state, "a", READY, restarts=1)
    assert after.pid != before.pid


async def test_a_process_whose_log_cannot_be_written_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogFile, "_append", refuse)
    async with supervised(tmp_path, [fake_spec("a", "--flood-bytes", "1000000")]) as state:
        before = await becomes(state, "a", READY)  # it writes before it is ready, more than a pipe holds
        os.kill(before.pid, signal.SIGKILL)
        await becomes(state, "a", READY, restarts=1)
    assert state.log_of("a").read_bytes() == b""


def test_what_a_log_lost_is_told_when_there_is_room_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.log"
    with LogFile(path, max_bytes=1000, num_old=0) as log:
        with monkeypatch.context() as full:
            full.setattr(LogFile, "_append", refuse)
            log.write(b"lost\n")
        log.write(b"kept\n")
    assert path.read_text() == "supervisor: 5 bytes could not be written here\nkept\n"


async def test_a_process_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    spec = fake_spec("a")
    large = {"TOO_LARGE": "x" * 10_000_000}  # the system refuses such an environment
    impossible = ProcessSpec(name="a", command=spec.command, environment=large, probe=spec.probe)
    async with supervised(tmp_path, [impossible]) as state:
        record = await becomes(state, "a", BACKOFF, restarts=2)
    assert "could not be started" in record.reason


def test_what_a_disk_took_of_a_line_before_it_was_full_is_not_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, room = tmp_path / "a.log", [4, 0]
    append = LogFile._append

    def filling(log: LogFile, data: bytes) -> int:
        left = room.pop(0) if room else len(data)
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return append(log, data[:left])

    monkeypatch.setattr(LogFile, "_append", filling)
    with LogFile(path, max_bytes=1000, num_old=0) as log:
        log.write(b"first line\n")
        log.write(b"second\n")
    assert path.read_text() == "firs\nsupervisor: 7 bytes could not be written here\nsecond\n"
