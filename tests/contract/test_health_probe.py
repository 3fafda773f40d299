import subprocess
import sys
from pathlib import Path

from stagemesh.cli.supervisor.mesh_file import ProcessState
from stagemesh.runtime.probe import probe
from tests.contract.supervised import becomes, fake_spec, supervised

READY = ProcessState.READY


async def test_the_probe_tells_serving_from_unknown_and_from_silence(tmp_path: Path) -> None:
    spec = fake_spec("a")
    async with supervised(tmp_path, [spec]) as state:
        await becomes(state, "a", READY)
        assert probe(spec.address, "fake") == (True, "SERVING")
        assert probe(spec.address, "other") == (False, "NOT_FOUND")
    assert probe(spec.address, "fake", timeout_s=0.2) == (False, "DEADLINE_EXCEEDED")


def test_the_probe_is_a_command_whose_exit_code_tells() -> None:
    command = [sys.executable, "-P", "-m", "stagemesh.runtime.probe", "127.0.0.1:9", "x", "--timeout", "0.2"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert result.returncode == 1
    assert result.stdout == "127.0.0.1:9 x: DEADLINE_EXCEEDED\n"
