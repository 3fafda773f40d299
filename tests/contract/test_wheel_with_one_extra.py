"""The wheel, installed with the extra of one service into an environment of its own, runs that service and no more."""

import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from engine_server_support import submit

from services.engine.kernels.native.build import (
    LEVELS,
    buildable_levels,
    library_name,
    supported_levels,
)
from stagemesh.api.engine.v1 import engine_pb2, engine_pb2_grpc
from stagemesh.cli.supervisor.plan import HEALTH_NAMES
from stagemesh.cli.supervisor.ports import assign_ports
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer
from tests.contract.supervised import eventually

pytestmark = pytest.mark.timeout(600)  # the first test builds the wheel, which compiles kernels

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
    subprocess.run(command, cwd=ROOT, check=True, timeout=900)
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


@asynccontextmanager
async def running(
    folder: Path, wheel: Path, environment: dict[str, str], service: str
) -> AsyncIterator[tuple[str, subprocess.Popen[bytes]]]:
    """The service from the wheel, ready to be called: its address and its process. No program is on its path."""
    python = install(folder / "environment", wheel, service)
    assert not list((folder / "environment").rglob("torch"))
    address = f"127.0.0.1:{assign_ports([service], {})[service]}"
    log = folder / "log"
    command = [str(python), "-P", "-m", f"services.{service}"]
    environment = {**environment, f"STAGEMESH_{service.upper()}__LISTEN": address, "PATH": str(python.parent)}
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220  it is only polled
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
    try:
        probe = [str(python), "-P", "-m", "stagemesh.runtime.probe", address, HEALTH_NAMES[service]]

        def ready() -> bool:
            assert process.poll() is None, log.read_text()
            return subprocess.run(probe, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0

        await eventually(ready, f"{service} is ready", timeout_s=180)
        yield address, process
        process.terminate()
        assert process.wait(30) == 0, log.read_text()
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("service", ["validator", "tokenizer"])
async def test_the_wheel_with_one_extra_runs_that_service(
    tmp_path: Path, wheel: Path, environment: dict[str, str], service: str, default_model_files: object
) -> None:
    async with running(tmp_path, wheel, environment, service):
        pass


@pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2 on x86-64 Linux")
async def test_the_engine_of_the_wheel_answers_without_torch_and_without_a_compiler(
    tmp_path: Path, wheel: Path, environment: dict[str, str], default_model_files: ModelFiles
) -> None:
    """From the library that the wheel brought, not from one that was compiled on this machine before."""
    tokenizer = load_tokenizer(default_model_files).build()
    async with (
        running(tmp_path, wheel, environment, "engine") as (address, process),
        grpc.aio.insecure_channel(address) as channel,
    ):
        library = supported_levels()[0].name
        assert re.search(rf"environment/.*/stagemesh-kernels-{library}-\w+\.so", mapped_files(process.pid))
        stub: engine_pb2_grpc.EngineServiceAsyncStub = engine_pb2_grpc.EngineServiceStub(channel)
        prompt = tokenizer.encode("The capital of France is").ids
        asked = engine_pb2.GenerateRequest(submit=submit("a", prompt, max_tokens=4))
        tokens = [token async for said in stub.Generate(asked, timeout=60) for token in said.delta.token_ids]
        assert "Paris" in tokenizer.decode(tokens)


def mapped_files(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


@pytest.mark.skipif(not buildable_levels(), reason="there are no kernels for this platform")
def test_the_wheel_brings_the_kernels_for_every_instruction_set_and_names_its_platform(wheel: Path) -> None:
    assert re.search(r"-py3-none-(many)?linux\w*_x86_64\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as files:
        libraries = {name: files.read(name) for name in files.namelist() if name.endswith(".so")}
    folder = "services/engine/kernels/native/prebuilt"
    assert set(libraries) == {f"{folder}/{library_name(level)}" for level in LEVELS}
    for content in libraries.values():
        assert b"sm_decoder_step" in content
        assert b"libstdc++.so" not in content, "the C++ library is linked in"
