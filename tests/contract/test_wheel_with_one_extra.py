"""The wheel, installed with the extra of one service into an environment of its own, runs that service and no more."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from stagemesh.cli.supervisor.plan import HEALTH_NAMES
from stagemesh.cli.supervisor.ports import assign_ports
from tests.contract.supervised import eventually

ROOT = Path(__file__).parents[2]
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile")
CANNOT_FETCH = (
    "Could not find a version",
    "Failed to establish",
    "Temporary failure in name resolution",
    "No matching distribution",
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        ".",
    ]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    (built,) = folder.glob("stagemesh-*.whl")
    return built


def install(folder: Path, wheel: Path, extra: str) -> Path:
    """A fresh environment with the wheel and one extra; gives its interpreter. Skips where pip has no network."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    target = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    command = [sys.executable, *PIP, "--target", target, "-c", str(ROOT / "constraints.txt"), f"{wheel}[{extra}]"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if result.returncode and not os.environ.get("CI") and any(sign in result.stderr for sign in CANNOT_FETCH):
        pytest.skip("installing into a fresh environment needs a network")
    assert result.returncode == 0, result.stderr
    return python


@pytest.fixture
def environment() -> dict[str, str]:
    """Without the checkout and without configuration from outside."""
    dropped = ("STAGEMESH_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("service", ["validator", "tokenizer"])
async def test_the_wheel_with_one_extra_runs_that_service(
    tmp_path: Path, wheel: Path, environment: dict[str, str], service: str, default_model_files: object
) -> None:
    python = install(tmp_path / "environment", wheel, service)
    assert not list((tmp_path / "environment").rglob("torch"))
    port = assign_ports([service], {})[service]
    log = tmp_path / "log"
    command = [str(python), "-P", "-m", f"services.{service}"]
    address = {f"STAGEMESH_{service.upper()}__LISTEN": f"127.0.0.1:{port}"}
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220  it is only polled
            command, cwd=tmp_path, env={**environment, **address}, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        probe = [str(python), "-P", "-m", "stagemesh.runtime.probe", f"127.0.0.1:{port}", HEALTH_NAMES[service]]

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            return (
                subprocess.run(probe, cwd=tmp_path, env=environment, capture_output=True, check=False).returncode == 0
            )

        await eventually(ready, f"{service} is ready", timeout_s=60)
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()
