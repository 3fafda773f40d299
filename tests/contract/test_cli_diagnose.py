"""`stagemesh diagnose` on faults of real files, ports, names and servers, without a mesh."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from quality_support import Valkey, free_port, running_valkey

from stagemesh.cli.diagnose.machine import disk
from stagemesh.cli.diagnose.stores import look_at_broker, look_at_redis
from stagemesh.cli.main import main


def diagnose(folder: Path, *arguments: str, config: str = "") -> dict[str, Any]:
    done = CliRunner().invoke(main, options(folder, arguments, config), env={"STAGEMESH_CONFIG": None})
    assert done.exit_code in (0, 1), done.output
    said: dict[str, Any] = json.loads(done.stdout)
    assert (done.exit_code == 1) == bool(said["verdicts"])
    return said


def diagnose_without_files(folder: Path, *arguments: str) -> dict[str, Any]:
    """In a process whose quota of file bytes is used up."""
    command = [sys.executable, "-m", "stagemesh.cli.main", *options(folder, arguments, "")]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("STAGEMESH_")}
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        preexec_fn=refuse_files,
    )
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def options(folder: Path, arguments: tuple[str, ...], config: str) -> list[str]:
    path = folder / "stagemesh.yaml"
    path.write_text(config)
    ports = () if "--grpc-port" in arguments else ("--grpc-port", str(free_port()), "--http-port", str(free_port()))
    where = ("--config", str(path), "--state", str(folder / "state"))
    return ["diagnose", "--json", *where, *ports, *arguments]


def refuse_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Valkey]:
    folder = tmp_path / "valkey"
    folder.mkdir()
    with running_valkey(folder) as valkey:
        yield valkey


def test_nothing_speaks_against_a_start(tmp_path: Path) -> None:
    said = diagnose(tmp_path)
    assert (said["cause"], said["mesh_runs"]) == (None, False)


def test_a_bad_key_and_a_missing_name(tmp_path: Path) -> None:
    said = diagnose(tmp_path, config="gateway: {max_request_bites: 7}\n")
    assert (said["cause"], said["kind"]) == ("bad_config", "infrastructure")
    assert "max_request_bites" in said["verdicts"][0]["evidence"]
    said = diagnose(tmp_path, config="addresses: {engine: ['engine.nowhere.invalid:50053']}\n")
    assert (said["cause"], said["kind"]) == ("dns_missing", "network")


def test_a_port_that_another_holds_while_the_disk_takes_no_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        said = diagnose_without_files(tmp_path, "--grpc-port", port, "--http-port", str(free_port()))
    assert [verdict["cause"] for verdict in said["verdicts"]] == ["port_clash", "disk_full"]


def test_a_folder_that_takes_files_is_no_finding(tmp_path: Path) -> None:
    error, free_bytes = disk(tmp_path / "not" / "yet" / "there")
    assert error == ""
    assert free_bytes
    assert list(tmp_path.iterdir()) == []


async def test_a_redis_server_that_is_well_slow_or_gone(server: Valkey) -> None:
    well = await look_at_redis("ledger", server.url)
    assert well.reachable
    assert abs(well.skew_s) < 1
    assert well.write_error == ""
    ending = threading.Event()

    def alternate() -> None:
        while not ending.is_set():
            os.kill(server.pid, signal.SIGSTOP)
            ending.wait(0.1)
            os.kill(server.pid, signal.SIGCONT)
            ending.wait(0.004)

    thread = threading.Thread(target=alternate)
    thread.start()
    try:
        slow = await look_at_redis("ledger", server.url)
    finally:
        ending.set()
        thread.join()
    assert slow.reachable
    assert slow.delay_ms > 20
    gone = await look_at_redis("ledger", f"redis://127.0.0.1:{free_port()}/0")
    assert not gone.reachable


async def test_a_broker_that_is_not_there() -> None:
    assert "does not answer" in await look_at_broker(f"127.0.0.1:{free_port()}")
