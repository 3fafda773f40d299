import os
import signal
import socket
from pathlib import Path

import psutil
import pytest

from stagemesh.cli.supervisor.log_file import last_lines
from stagemesh.cli.supervisor.mesh_file import ProcessState
from stagemesh.cli.supervisor.ports import split_address
from stagemesh.cli.supervisor.settings import SupervisorConfig
from tests.contract.supervised import SETTINGS, becomes, eventually, fake_spec, supervised

READY, FAILED, BACKOFF = ProcessState.READY, ProcessState.FAILED, ProcessState.BACKOFF


async def test_a_killed_process_is_started_again_on_the_same_port(tmp_path: Path) -> None:
    async with supervised(tmp_path, [fake_spec("a")]) as state:
        before = await becomes(state, "a", READY)
        os.kill(before.pid, signal.SIGKILL)
        after = await becomes(state, "a", READY, restarts=1)
    assert after.pid != before.pid
    assert after.address == before.address
    assert after.reason == "killed by SIGKILL"


async def test_a_configuration_error_is_told_and_not_tried_again(tmp_path: Path) -> None:
    async with supervised(tmp_path, [fake_spec("a", "--exit-code", "78")]) as state:
        record = await becomes(state, "a", FAILED)
    assert record.reason == "fake.key: is wrong"
    assert record.restarts == 0


async def test_a_port_that_is_taken_between_two_runs_is_waited_for(tmp_path: Path) -> None:
    spec = fake_spec("a")
    async with supervised(tmp_path, [spec]) as state:
        before = await becomes(state, "a", READY)
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            os.kill(before.pid, signal.SIGKILL)
            await eventually(lambda: is_bound(other, spec.address), "the port is free for the other")
            refused = await becomes(state, "a", BACKOFF, restarts=2)
            assert refused.reason == "exit code 78: the port is taken"
        await becomes(state, "a", READY, restarts=2)


def is_bound(other: socket.socket, address: str) -> bool:
    try:
        other.bind(split_address(address))
    except OSError:
        return False
    other.listen()
    return True


async def test_a_process_that_keeps_failing_is_tried_again_with_its_last_words_as_the_reason(tmp_path: Path) -> None:
    async with supervised(tmp_path, [fake_spec("a", "--exit-code", "1")]) as state:
        record = await becomes(state, "a", BACKOFF, restarts=3)
    assert record.reason == "exit code 1: fake.key: is wrong"


async def test_a_process_whose_health_falls_silent_is_restarted(tmp_path: Path) -> None:
    settings = SETTINGS.model_copy(update={"stuck_after_s": 0.5})
    async with supervised(tmp_path, [fake_spec("a")], settings) as state:
        before = await becomes(state, "a", READY)
        os.kill(before.pid, signal.SIGSTOP)
        after = await becomes(state, "a", READY, restarts=1)
    assert after.pid != before.pid
    assert after.reason == "its health had not answered for 0.5 s"


async def test_a_process_that_never_answers_is_restarted_after_the_start_timeout(tmp_path: Path) -> None:
    spec = fake_spec("a")
    deaf = fake_spec("b")
    lost = type(spec)(name="a", command=spec.command, environment=spec.environment, probe=deaf.probe)
    settings = SETTINGS.model_copy(update={"start_timeout_s": 0.5})
    async with supervised(tmp_path, [lost], settings) as state:
        record = await becomes(state, "a", BACKOFF, restarts=1)
    assert record.reason == "its health had not answered for 0.5 s"


async def test_a_failed_process_does_not_stop_the_others(tmp_path: Path) -> None:
    async with supervised(tmp_path, [fake_spec("a", "--exit-code", "78"), fake_spec("b")]) as state:
        await becomes(state, "a", FAILED)
        await becomes(state, "b", READY)


async def test_what_a_process_writes_is_kept_and_its_log_does_not_grow_beyond_its_limit(tmp_path: Path) -> None:
    settings = SupervisorConfig(max_log_bytes=4096, num_old_logs=2, probe_interval_s=0.1)
    async with supervised(tmp_path, [fake_spec("a", "--flood-bytes", "100000")], settings) as state:
        await becomes(state, "a", READY)
    logs = sorted(path.name for path in state.logs.iterdir())
    assert logs == ["a.log", "a.log.1", "a.log.2"]
    assert sum(path.stat().st_size for path in state.logs.iterdir()) < 4 * 4096 + 65_536
    assert "fake service is ready" in last_lines(state.log_of("a"), 10)


@pytest.mark.skipif(os.name != "posix", reason="process groups are POSIX")
async def test_what_a_process_started_ends_with_it(tmp_path: Path) -> None:
    spec = fake_spec("a")
    shell = ("/bin/sh", "-c", f"sleep 300 & exec {' '.join(spec.command)}")
    spec = type(spec)(name="a", command=shell, environment=spec.environment, address=spec.address, probe=spec.probe)
    async with supervised(tmp_path, [spec]) as state:
        before = await becomes(state, "a", READY)
        (grandchild,) = psutil.Process(before.pid).children()
        os.kill(before.pid, signal.SIGKILL)
        await becomes(state, "a", READY, restarts=1)
        assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE
