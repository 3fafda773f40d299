"""The compose file, the Dockerfile and the example configuration describe the mesh that the code has."""

import importlib.resources
import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cache.kv_config import KvConfig
from stagemesh.cli.supervisor.mesh_settings import SERVICES, read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.plan import HEALTH_NAMES
from stagemesh.cli.supervisor.servers import KV_BASE_MB, KV_SLACK

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    """The compose file as compose itself understands it."""
    binary = importlib.resources.files("compose") / "docker-compose"  # the package's wrapper hides the exit code
    command = [str(binary), "-f", str(DEPLOY / "compose.yaml"), "--profile", "*", "config", "--format", "json"]
    environment = {**os.environ, "STAGEMESH_MESH_TOKEN": "token"}
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_every_service_of_the_mesh_is_in_the_compose_file(compose: dict[str, Any]) -> None:
    assert set(SERVICES) | {"ledger", "kv", "kafka", "engine-candidate", "models", "cli"} == set(compose["services"])


def test_the_mesh_token_must_be_given() -> None:
    binary = importlib.resources.files("compose") / "docker-compose"
    environment = {key: value for key, value in os.environ.items() if key != "STAGEMESH_MESH_TOKEN"}
    command = [str(binary), "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert result.returncode != 0
    assert "STAGEMESH_MESH_TOKEN" in result.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_asked_for_its_own_health_on_the_port_it_listens_on(compose: dict[str, Any], name: str) -> None:
    service = compose["services"][name]
    probe = service["healthcheck"]["test"]
    assert probe[-3] == "stagemesh.runtime.probe"
    assert probe[-1] == HEALTH_NAMES[name]
    listen = service["environment"][f"STAGEMESH_{name.upper()}__LISTEN"]
    assert listen == f"0.0.0.0:{probe[-2].rpartition(':')[2]}"
    addresses = service["environment"].get(f"STAGEMESH_ADDRESSES__{name.upper()}")
    if addresses:
        assert addresses.strip('["]').rpartition(":")[2] == listen.rpartition(":")[2]


def test_engines_can_be_scaled(compose: dict[str, Any]) -> None:
    engine = compose["services"]["engine"]
    assert "container_name" not in engine
    assert "ports" not in engine
    assert json.loads(engine["environment"]["STAGEMESH_ADDRESSES__ENGINE"]) == ["engine:50053"]


def test_only_the_gateway_is_published_and_on_loopback_by_default(compose: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in compose["services"].items() if service.get("ports")}
    assert set(published) == {"gateway"}
    assert {port["host_ip"] for port in published["gateway"]} == {"127.0.0.1"}


def test_everything_has_a_memory_limit_a_log_limit_and_a_restart_policy(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["logging"]["options"]["max-size"], name
        assert service["restart"], name
        if name not in {"models", "cli"}:
            assert service["deploy"]["resources"]["limits"]["memory"], name
            assert service["healthcheck"]["test"], name


def test_the_ledger_is_durable_and_the_kv_redis_is_bounded(compose: dict[str, Any]) -> None:
    ledger, kv = " ".join(compose["services"]["ledger"]["command"]), compose["services"]["kv"]["entrypoint"][-1]
    assert "--appendonly yes" in ledger
    for command in (ledger, kv):
        assert "noeviction" in command
    memory_mb = int(re.search(r"--maxmemory (\d+)mb", kv)[1])  # type: ignore[index]  # absent is a failure as well
    assert memory_mb == KV_BASE_MB + round(KvConfig().total_mb * KV_SLACK)
    assert memory_mb << 20 < int(compose["services"]["kv"]["deploy"]["resources"]["limits"]["memory"])


def test_the_kv_redis_loads_no_snapshot_from_before_a_crash(compose: dict[str, Any], tmp_path: Path) -> None:
    begin, _, _ = compose["services"]["kv"]["entrypoint"][-1].partition("exec ")
    snapshot, loaded = tmp_path / "dump.rdb", tmp_path / "loaded"

    def start() -> bool:
        subprocess.run(["sh", "-c", begin], cwd=tmp_path, check=True, timeout=20)
        return snapshot.exists()

    assert not start()
    snapshot.touch()
    os.utime(loaded, (1, 1))
    assert start()  # saved since the last start
    os.utime(snapshot, (2, 2))
    assert not start()


def stages() -> dict[str, str]:
    """Target → its part of the Dockerfile."""
    parts = re.split(r"^FROM \S+ AS (\w+)$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def extras(part: str) -> set[str]:
    """What a stage installs, with the defaults of its arguments."""
    (named,) = re.findall(r"\.whl\)\[([^\]]+)\]", part)
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", part, flags=re.MULTILINE))
    return set(re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], named).split(","))


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_has_an_image_with_its_own_extra_that_does_not_run_as_root(name: str) -> None:
    part = stages()[name]
    assert name in extras(part)
    assert "USER stagemesh" in part
    assert f'ENTRYPOINT ["python", "-P", "-m", "services.{name}"]' in part
    assert not {"torch", "mesh"} & extras(part)


def test_only_the_stage_that_builds_the_wheel_has_a_compiler() -> None:
    parts = stages()
    assert "apt-get install -y --no-install-recommends g++" in parts["wheel"]
    assert [name for name, part in parts.items() if "apt-get" in part] == ["wheel"]


def test_the_build_context_has_the_build_hook_and_no_kernels_of_the_checkout() -> None:
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]["hooks"]["custom"]["path"]
    assert f"!{hook}" in ignored
    assert f"COPY {hook} " in stages()["wheel"]
    assert ignored.index("services/engine/kernels/native/prebuilt") > ignored.index("!services")


def test_every_image_of_the_compose_file_is_a_target_of_the_dockerfile(compose: dict[str, Any]) -> None:
    targets = {service["build"]["target"] for service in compose["services"].values() if "build" in service}
    assert targets <= set(stages())


def test_the_example_configuration_is_valid_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in [name for name in os.environ if name.startswith("STAGEMESH_")]:
        monkeypatch.delenv(variable)
    example = read_settings(UpOptions(config=DEPLOY / "stagemesh.example.yaml", state=tmp_path))
    defaults = read_settings(UpOptions(state=tmp_path))
    assert (example.mesh, example.supervisor) == (defaults.mesh, defaults.supervisor)
    assert (example.grpc_address, example.http_address) == (defaults.grpc_address, defaults.http_address)


def test_every_key_of_the_example_is_explained() -> None:
    text = (DEPLOY / "stagemesh.example.yaml").read_text(encoding="utf-8")
    assert set(yaml.safe_load(text)) >= {*SERVICES, "supervisor", "addresses", "models", "shadow"}


def test_no_document_names_a_place_of_one_machine() -> None:
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *DEPLOY.glob("*.yaml"), ROOT / "Makefile"]:
        if path.is_file():
            found = re.findall(r"/(?:root|tmp|home/\w+)/\w+", path.read_text(encoding="utf-8"))
            assert not found, f"{path.relative_to(ROOT)}: {found}"


def test_every_key_has_its_meaning_beside_it() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    bare = re.findall(r"^\| `([\w.]+)` \| .* \|  ?(?:\([^|]*\) )?\|$", text, flags=re.MULTILINE)
    assert not bare, "give these fields a docstring and run `make docs`"
