"""`stagemesh up` as a person runs it: in the foreground, with a first question, ended with Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from mesh_support import Mesh, free_port, wait_until

from stagemesh.cli.supervisor.mesh_file import is_same_process, read_mesh


def start_in_foreground(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stagemesh.cli.main", "up", "--state", str(folder), *options]
    ports = ("--grpc-port", str(free_port()), "--http-port", str(free_port()))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STAGEMESH_")}
    return subprocess.Popen(
        [*command, *ports], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


@pytest.mark.mesh
@pytest.mark.timeout(300)
def test_a_second_mesh_beside_the_first_answers_its_first_question_and_stops_on_ctrl_c(
    mesh: Mesh, tmp_path: Path
) -> None:
    process = start_in_foreground(tmp_path, "--ask", "What is the capital of France?")
    try:
        assert process.stdout is not None
        said: list[str] = []
        for line in process.stdout:
            said.append(line)
            if "Ctrl-C drains" in line:
                break
        record = read_mesh(tmp_path / "mesh.json")
        assert record is not None
        assert record.ready
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    text = "".join(said)
    assert "Paris" in text
    assert all(stage in text for stage in ("admit", "attend", "detokenize", "correct"))
    assert f"gRPC   {record.grpc_address}" in text
    assert (process.returncode, "Draining" in rest) == (0, True)
    assert not any(is_same_process(each.pid, each.started_at) for each in record.processes)
    assert mesh.is_ready()


@pytest.mark.mesh
@pytest.mark.timeout(300)
@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux")
def test_killing_the_foreground_command_leaves_nothing_behind(tmp_path: Path) -> None:
    process = start_in_foreground(tmp_path)
    try:
        wait_until(
            lambda: (record := read_mesh(tmp_path / "mesh.json")) is not None and record.running, 60, "it begins"
        )
        time.sleep(1)  # some of its processes are in the middle of their start
    finally:
        process.kill()
        process.communicate()
    wait_until(lambda: not left_over(tmp_path), 60, "all processes have ended")


def left_over(state: Path) -> list[str]:
    """Command lines of processes that were started for this state folder."""
    mine = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("STAGEMESH_STATE_DIR") == str(state) or str(state) in process.cmdline():
                mine.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return mine
