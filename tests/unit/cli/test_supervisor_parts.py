import json
import re
import socket
from pathlib import Path

import pytest
import yaml

from stagemesh.cli.supervisor.backoff import Backoff
from stagemesh.cli.supervisor.log_file import LogFile, last_lines
from stagemesh.cli.supervisor.mesh_settings import reachable, read_settings
from stagemesh.cli.supervisor.options import UpOptions
from stagemesh.cli.supervisor.plan import instances, plan, port_names, yaml_scalar
from stagemesh.cli.supervisor.ports import FIRST_PORT, LAST_PORT, assign_ports, can_bind, split_address
from stagemesh.cli.supervisor.servers import plan_servers
from stagemesh.cli.supervisor.spec import Phase, ProcessSpec
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.mesh_config import MeshConfig, ModelConfig, ShadowConfig


def test_backoff_doubles_up_to_its_limit_and_begins_anew_after_a_stable_run() -> None:
    backoff = Backoff(initial_s=0.1, max_s=1.0, stable_after_s=20.0)
    assert [backoff.next_delay_s(0.0) for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert backoff.next_delay_s(19.9) == 1.0
    assert backoff.next_delay_s(20.0) == 0.1


def test_ports_stay_the_same_while_they_are_free() -> None:
    first = assign_ports(["a", "b"], {})
    assert len(set(first.values())) == 2
    assert all(FIRST_PORT <= port <= LAST_PORT for port in first.values())
    assert assign_ports(["a", "b", "c"], first).items() > first.items()


def test_a_port_that_something_else_took_is_replaced() -> None:
    remembered = assign_ports(["a"], {})
    with socket.socket() as other:
        other.bind(("127.0.0.1", remembered["a"]))
        other.listen()
        assert not can_bind("127.0.0.1", remembered["a"])
        assert assign_ports(["a"], remembered)["a"] != remembered["a"]


@pytest.mark.parametrize("text", ["nonsense", "host:", "host:0", "host:65536", "host:x"])
def test_a_malformed_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host:port"):
        split_address(text)


def test_addresses_that_listen_everywhere_are_reached_over_loopback() -> None:
    assert reachable("0.0.0.0:50051") == "127.0.0.1:50051"
    assert reachable("[::]:50051") == "[::1]:50051"
    assert reachable("10.0.0.1:50051") == "10.0.0.1:50051"


@pytest.mark.parametrize(
    "text", ["plain", "redis://:p@127.0.0.1:1/0", "/a folder: odd #1", "123", "yes", "1e3", "", "{"]
)
def test_the_environment_carries_any_string_through_yaml(text: str) -> None:
    assert yaml.safe_load(yaml_scalar(text)) == text


def test_a_log_is_rotated_and_read_back_across_its_parts(tmp_path: Path) -> None:
    with LogFile(tmp_path / "a.log", max_bytes=20, num_old=2) as log:
        for number in range(9):
            log.write(f"line {number:03}\n".encode())  # 9 bytes: two fit
    assert last_lines(tmp_path / "a.log", 3) == ["line 006", "line 007", "line 008"]
    assert last_lines(tmp_path / "a.log", 100) == [f"line {number:03}" for number in range(4, 9)]
    assert last_lines(tmp_path / "a.log", 0) == []
    assert last_lines(tmp_path / "none.log", 3) == []


def mesh_of(**keys: object) -> MeshConfig:
    return MeshConfig.model_validate(keys)


def test_each_replica_of_each_model_is_a_process() -> None:
    mesh = MeshConfig(models={"other": ModelConfig(source="hf:a/b")}, serve={"smollm2-135m-instruct": 2, "other": 1})
    engines = [(each.name, each.model) for each in instances(mesh) if each.service == "engine"]
    assert engines == [
        ("engine-1", "smollm2-135m-instruct"),
        ("engine-2", "smollm2-135m-instruct"),
        ("engine-3", "other"),
    ]


def test_differ_and_candidate_run_only_with_a_candidate() -> None:
    assert {"differ", "engine-candidate"}.isdisjoint(port_names(MeshConfig()))
    shadowed = MeshConfig(shadow=ShadowConfig(candidate="smollm2-135m-instruct", candidate_settings={"max_running": 2}))
    (candidate,) = [each for each in instances(shadowed) if each.name == "engine-candidate"]
    assert (candidate.model, dict(candidate.settings)) == ("smollm2-135m-instruct", {"max_running": 2})
    assert "differ" in port_names(shadowed)


def test_configured_servers_are_used_and_missing_ones_are_embedded() -> None:
    assert port_names(MeshConfig())[:3] == ["valkey", "valkey-kv", "kafka"]
    assert {"valkey", "valkey-kv"}.isdisjoint(port_names(mesh_of(redis_url="redis://r:6379")))
    assert port_names(mesh_of(kv_url="redis://r:6379"))[:2] == ["valkey", "kafka"]
    assert port_names(mesh_of(ledger_url="redis://r:6379"))[:2] == ["valkey-kv", "kafka"]
    assert "kafka" not in port_names(mesh_of(kafka_bootstrap="k:9092"))


def planned(tmp_path: Path, yaml_text: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, ProcessSpec]:
    monkeypatch.delenv("STAGEMESH_CONFIG", raising=False)
    config = tmp_path / "stagemesh.yaml"
    config.write_text(yaml_text)
    settings = read_settings(UpOptions(config=config, state=tmp_path / "state", engines=2, grpc_port=50999))
    settings.state.create()
    ports = {name: 21_000 + index for index, name in enumerate(port_names(settings.mesh))}
    specs = plan(settings, plan_servers(settings.mesh, settings.state, ports, kv_budget_mb=100), ports, "mesh-token")
    return {spec.name: spec for spec in specs}


def test_every_process_is_told_where_the_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = planned(tmp_path, "gateway: {http_listen: '127.0.0.1:8090'}\n", monkeypatch)
    engines = [specs["engine-1"].address, specs["engine-2"].address]
    for name in ("tokenizer", "engine-1", "cache", "validator", "corrector", "worker", "gateway"):
        environment = specs[name].environment
        assert json.loads(environment["STAGEMESH_ADDRESSES__ENGINE"]) == engines
        assert environment["STAGEMESH_ADDRESSES__GATEWAY"] == "127.0.0.1:50999"
        assert environment["STAGEMESH_MESH_TOKEN"] == "mesh-token"
        for variable, server, users in (
            ("STAGEMESH_LEDGER_URL", "valkey", {"gateway", "cache", "worker", "validator", "corrector"}),
            ("STAGEMESH_KV_URL", "valkey-kv", {"cache", "engine"}),
        ):
            user, found = name.partition("-")[0], environment[variable]
            is_own = found.startswith(f"redis://{user}:") and found.endswith(f"@{specs[server].address}/0")
            assert is_own if user in users else found == '""'
        assert environment["STAGEMESH_KAFKA_BOOTSTRAP"] == specs["kafka"].address
        assert environment["STAGEMESH_CONFIG"] == str(tmp_path / "stagemesh.yaml")
        assert environment["STAGEMESH_INSTANCE"] == name
    assert specs["gateway"].environment["STAGEMESH_GATEWAY__LISTEN"] == "127.0.0.1:50999"
    assert specs["gateway"].environment["STAGEMESH_GATEWAY__HTTP_LISTEN"] == "127.0.0.1:8090"
    assert specs["engine-2"].environment["STAGEMESH_ENGINE__LISTEN"] == specs["engine-2"].address
    assert specs["engine-2"].command[1:] == ("-P", "-m", "services.engine")
    assert [spec.phase for spec in specs.values()] == sorted(spec.phase for spec in specs.values())
    assert specs["gateway"].phase is Phase.GATEWAY


def test_the_candidate_gets_its_own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = planned(
        tmp_path, "shadow: {candidate: smollm2-135m-instruct, candidate_settings: {max_running: 2}}\n", monkeypatch
    )
    candidate = specs["engine-candidate"]
    assert candidate.environment["STAGEMESH_ENGINE__MAX_RUNNING"] == "2"
    assert json.loads(candidate.environment["STAGEMESH_ADDRESSES__CANDIDATE_ENGINE"]) == [candidate.address]
    assert candidate.address not in json.loads(candidate.environment["STAGEMESH_ADDRESSES__ENGINE"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gateway:\n  nonsense: 1\n", "stagemesh.yaml:2: gateway.nonsense"),
        ("serve: {unknown: 1}\n", "serve.unknown: names the model 'unknown'"),
        ("gateway: {routes: {bulk: {}}}\n", "gateway.default_route: is 'chat', which `routes` lacks (bulk)"),
        ("shadow: {candidate_settings: {dtyp: x}}\n", "shadow.candidate_settings.dtyp: is not a known key"),
        ("gateway: {http_listen: nowhere}\n", "gateway.http_listen: 'nowhere' is not an address"),
        ("supervisor: {max_log_bytes: 1}\n", "supervisor.max_log_bytes"),
    ],
)
def test_a_bad_key_is_told_with_its_place_before_anything_starts(tmp_path: Path, text: str, said: str) -> None:
    config = tmp_path / "stagemesh.yaml"
    config.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_settings(UpOptions(config=config, state=tmp_path))
