import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from stagemesh.cli.console import print_lines
from stagemesh.cli.exits import Exit
from stagemesh.cli.main import COMMANDS, main
from stagemesh.cli.mesh_access import command_for
from stagemesh.cli.supervisor.lock import hold
from stagemesh.cli.supervisor.mesh_file import (
    MeshRecord,
    ProcessRecord,
    ProcessState,
    process_started_at,
    write_mesh,
)
from stagemesh.cli.supervisor.state_dir import StateDir

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage:")
    assert len(result.output.splitlines()) > 3


def test_help_loads_neither_grpc_nor_torch_nor_pydantic() -> None:
    code = (
        "import sys\n"
        "from stagemesh.cli.main import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "print(sorted({'grpc', 'torch', 'pydantic', 'rich', 'yaml'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("module", ["stagemesh.cli.supervisor.__main__", "stagemesh.cli.starting"])
def test_starting_a_mesh_never_loads_torch(module: str) -> None:
    code = f"import sys, importlib; importlib.import_module({module!r}); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "False\n"


def test_the_version_is_told_in_both_ways() -> None:
    told = CliRunner().invoke(main, ["version"]).stdout
    assert told == CliRunner().invoke(main, ["--version"]).stdout
    assert told.count(".") == 2


def test_an_unknown_command_is_a_usage_error() -> None:
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == Exit.USAGE


@pytest.mark.parametrize("arguments", [["status"], ["status", "--json"], ["logs", "gateway"]])
def test_without_a_mesh_commands_end_with_3(tmp_path: Path, arguments: list[str]) -> None:
    result = CliRunner().invoke(main, [*arguments, "--state", str(tmp_path)])
    assert result.exit_code == Exit.UNREACHABLE
    if "--json" not in arguments:
        assert "stagemesh up" in result.stderr


def test_down_without_a_mesh_is_no_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["down", "--state", str(tmp_path)])
    assert (result.exit_code, "No mesh runs" in result.stdout) == (0, True)


@pytest.mark.parametrize(("option", "other"), [("--grpc-port", "--http-port"), ("--http-port", "--grpc-port")])
def test_a_taken_port_is_told_with_the_option_that_changes_it(tmp_path: Path, option: str, other: str) -> None:
    with socket.socket() as taken, socket.socket() as free:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        free.bind(("127.0.0.1", 0))
        ports = taken.getsockname()[1], free.getsockname()[1]
        free.close()
        arguments = ["up", "--state", str(tmp_path), option, str(ports[0]), other, str(ports[1])]
        result = CliRunner().invoke(main, arguments)
    assert result.exit_code == Exit.USAGE
    assert f"port {ports[0]} on 127.0.0.1 is taken or not permitted; choose another with {option}" in result.stderr
    assert not (tmp_path / "mesh.json").exists()


def running_here(folder: Path, process: ProcessState = ProcessState.READY) -> StateDir:
    """A mesh.json whose supervisor is this very process."""
    state = StateDir(folder)
    state.create()
    started_at = process_started_at(os.getpid())
    record = MeshRecord(
        supervisor_pid=os.getpid(),
        supervisor_started_at=started_at,
        grpc_address="127.0.0.1:1",
        http_address="127.0.0.1:2",
        processes=(ProcessRecord(name="engine-1", state=process, pid=os.getpid(), started_at=started_at),),
    )
    write_mesh(state.mesh_file, record)
    return state


@pytest.mark.parametrize(("process", "code"), [(ProcessState.READY, 0), (ProcessState.BACKOFF, 1)])
def test_status_tells_by_its_exit_code_whether_all_are_ready(tmp_path: Path, process: ProcessState, code: int) -> None:
    running_here(tmp_path, process)
    result = CliRunner().invoke(main, ["status", "--state", str(tmp_path)])
    assert result.exit_code == code
    assert "engine-1" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_second_mesh_on_the_same_state_says_so(tmp_path: Path) -> None:
    state = running_here(tmp_path)
    with hold(state):
        result = CliRunner().invoke(main, ["up", "--state", str(tmp_path)])
    assert result.exit_code == Exit.USAGE
    assert f"is running; `stagemesh status --state {tmp_path}` shows it" in result.stderr


def test_a_command_names_the_state_folder_where_another_mesh_would_be_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = StateDir(tmp_path / "my second")
    assert command_for("down", second) == f"stagemesh down --state '{second.path}'"
    monkeypatch.setenv("STAGEMESH_STATE", str(second.path))
    assert command_for("down", second) == "stagemesh down"


@pytest.mark.parametrize("arguments", [["logs", "engine-1", "-f"], ["status", "--watch"]])
def test_ctrl_c_ends_what_follows_without_a_word(tmp_path: Path, arguments: list[str]) -> None:
    running_here(tmp_path).log_of("engine-1").write_text("engine-1: begun\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "stagemesh.cli.main", *arguments, "--state", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert b"engine-1" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert (process.returncode, said) == (Exit.INTERRUPTED, b"")


def test_logs_names_the_logs_there_are(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    state.create()
    state.log_of("engine-1").write_text("one\ntwo\nthree\n")
    run = CliRunner().invoke
    assert run(main, ["logs", "engine", "-n", "2", "--state", str(tmp_path)]).stdout == "two\nthree\n"
    missing = run(main, ["logs", "nonsense", "--state", str(tmp_path)])
    assert (missing.exit_code, "there are engine-1" in missing.stderr) == (Exit.USAGE, True)
    assert run(main, ["logs", "../../etc/passwd", "--state", str(tmp_path)]).exit_code == Exit.USAGE


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for code in Exit:
        assert f"| {int(code)} |" in text, f"docs/cli.md does not list {code!r}"


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in COMMANDS:
        assert f"`stagemesh {name}" in text


def test_a_list_without_entries_leaves_stdout_empty_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines([], "there are no sessions")
    assert capsys.readouterr() == ("", "there are no sessions\n")
    print_lines(["a", "b [x]"], "there are none")
    assert capsys.readouterr() == ("a\nb [x]\n", "")
