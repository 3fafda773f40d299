"""doctor, model, tenant and shadow on real files and servers."""

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from services.differ.pair import Pair, Side
from services.differ.store import PairStore
from stagemesh.cli.main import main
from stagemesh.cli.supervisor.mesh_file import MeshRecord, process_started_at, write_mesh
from stagemesh.cli.supervisor.ports import assign_ports
from stagemesh.cli.supervisor.state_dir import StateDir
from stagemesh.embedded import valkey
from stagemesh.models.store import BUILTIN_FILE, ModelFiles


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(main, arguments, env={"STAGEMESH_CONFIG": None, "STAGEMESH_STATE": None, **environment})


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("valkey")
    port = assign_ports(["valkey"], {})["valkey"]
    password = valkey.load_password(folder)
    process = subprocess.Popen(valkey.command(folder, port, password), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert any("Ready to accept connections" in line for line in process.stdout)
        yield valkey.url(port, password)
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_a_tenant_is_made_listed_and_revoked(redis_url: str, tmp_path: Path) -> None:
    options, environment = ("--state", str(tmp_path)), {"STAGEMESH_REDIS_URL": redis_url}
    made = run("tenant", "create", "acme", *options, **environment)
    assert made.exit_code == 0, made.stderr
    assert made.stdout.startswith("sk-acme-")
    listed = run("tenant", "list", "--json", *options, **environment)
    assert [each["tenant_id"] for each in json.loads(listed.stdout)] == ["acme"]
    again = run("tenant", "create", "acme", *options, **environment)
    assert (again.exit_code, "TENANT_EXISTS" in again.stderr) == (4, True)
    assert run("tenant", "revoke", "acme", *options, **environment).exit_code == 0
    assert run("tenant", "revoke", "acme", *options, **environment).exit_code == 4
    assert json.loads(run("tenant", "list", "--json", *options, **environment).stdout) == []


def test_tenants_without_a_ledger_name_the_ways_to_have_one(tmp_path: Path) -> None:
    result = run("tenant", "list", "--state", str(tmp_path))
    assert result.exit_code == 3
    assert "STAGEMESH_LEDGER_URL" in result.stderr
    dead = run("tenant", "list", "--state", str(tmp_path), STAGEMESH_REDIS_URL="redis://127.0.0.1:9/0")
    assert (dead.exit_code, "does not answer" in dead.stderr) == (3, True)


def test_the_default_model_is_listed_verified_and_described(default_model_files: ModelFiles) -> None:
    (entry,) = json.loads(run("model", "list", "--json").stdout)
    assert (entry["name"], entry["present"], entry["is_default"]) == ("smollm2-135m-instruct", True, True)
    assert run("model", "pull").exit_code == 0
    verified = run("model", "verify", "--json")
    assert (verified.exit_code, json.loads(verified.stdout)["ok"]) == (0, True)
    told = run("model", "info").stdout.splitlines()
    assert {"license: apache-2.0", "has_chat_template: yes", "  num_layers: 30", "  eos_token_ids: 2"} <= {*told}
    described = json.loads(run("model", "info", "--json").stdout)
    assert (described["license"], described["config"]["num_layers"]) == ("apache-2.0", 30)


def test_an_unknown_model_is_told_with_those_there_are(tmp_path: Path) -> None:
    result = run("model", "pull", "nonsense")
    assert result.exit_code == 1
    assert "known are smollm2-135m-instruct" in result.stderr


def test_a_damaged_model_is_found(tmp_path: Path) -> None:
    model = tmp_path / "builtin" / BUILTIN_FILE
    model.parent.mkdir()
    model.write_bytes(b"not the model")
    result = run("model", "verify", STAGEMESH_MODEL_DIR=str(tmp_path))
    assert result.exit_code == 1
    assert f"WRONG  {model}" in result.stdout
    assert "stagemesh model pull" in result.stderr


def test_doctor_finds_nothing_in_the_way_of_a_default_mesh(tmp_path: Path, default_model_files: ModelFiles) -> None:
    ports = assign_ports(["grpc", "http"], {})
    options = ("--state", str(tmp_path), "--grpc-port", str(ports["grpc"]), "--http-port", str(ports["http"]))
    result = run("doctor", "--json", *options)
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"]) == (0, True), report
    names = {finding["name"] for finding in report["findings"]}
    assert {"python", "memory", "disk", "model smollm2-135m-instruct", "embedded Redis", "gRPC port"} <= names
    assert {"instruction set", "C++ compiler", "torch", "engine backend"} <= names
    assert all(finding["fix"] for finding in report["findings"] if finding["level"] != "ok")


def test_doctor_names_what_is_in_the_way_and_the_fix(tmp_path: Path, default_model_files: ModelFiles) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run(
            *("doctor", "--json", "--state", str(tmp_path), "--grpc-port", str(taken.getsockname()[1])),
            STAGEMESH_REDIS_URL="redis://:secret@127.0.0.1:9/0",
            STAGEMESH_KAFKA_BOOTSTRAP="127.0.0.1:9",
        )
    assert result.exit_code == 1
    assert "secret" not in result.stdout
    failed = {each["name"]: each["fix"] for each in json.loads(result.stdout)["findings"] if each["level"] == "fail"}
    assert "--grpc-port" in failed["gRPC port"]
    assert "STAGEMESH_REDIS_URL" in failed["ledger Redis"]
    assert "STAGEMESH_KAFKA_BOOTSTRAP" in failed["Kafka"]


def test_doctor_looks_at_the_ports_of_the_mesh_that_runs_on_the_state_folder(
    tmp_path: Path, default_model_files: ModelFiles
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        addresses = {"grpc_address": f"127.0.0.1:{port}", "http_address": "127.0.0.1:1"}
        pid = os.getpid()
        me = MeshRecord(supervisor_pid=pid, supervisor_started_at=process_started_at(pid), **addresses)
        write_mesh(StateDir(tmp_path).mesh_file, me)
        findings = json.loads(run("doctor", "--json", "--state", str(tmp_path)).stdout)["findings"]
    said = {each["name"]: (each["level"], each["detail"]) for each in findings}
    assert said["gRPC port"] == ("ok", f"127.0.0.1:{port}, used by this mesh")
    assert said["HTTP port"] == ("ok", "127.0.0.1:1, used by this mesh")


def test_doctor_tells_a_bad_configuration_with_its_place(tmp_path: Path) -> None:
    config = tmp_path / "stagemesh.yaml"
    config.write_text("serve: {}\nnonsense: 1\n")
    result = run("doctor", "--config", str(config), "--state", str(tmp_path))
    assert result.exit_code == 1
    assert "stagemesh.yaml:2: nonsense" in result.stdout


def test_a_shadow_report_without_pairs_says_how_to_get_some(tmp_path: Path) -> None:
    result = run("shadow", "report", "--state", str(tmp_path))
    assert (result.exit_code, "shadow.candidate" in result.stdout) == (0, True)
    assert json.loads(run("shadow", "report", "--json", "--state", str(tmp_path)).stdout)["rows"] == 0


def test_a_shadow_report_from_a_database_that_is_away_ends_with_3(tmp_path: Path) -> None:
    missing = tmp_path / "none" / "shadow.db"
    result = run("shadow", "report", "--state", str(tmp_path), STAGEMESH_DIFFER__DATABASE_URL=f"sqlite:///{missing}")
    assert (result.exit_code, "DATABASE_UNAVAILABLE" in result.stderr) == (3, True)


async def store_pairs(url: str) -> None:
    store = PairStore(url)
    await store.open()
    now = datetime.now(UTC)
    for number, (similarity, divergent) in enumerate([(1.0, None), (0.5, 2)]):
        text = Side(model="m", text=f"answer {number}", num_tokens=4, finish_reason="stop", total_us=1000)
        pair = Pair(
            tenant_id="dev",
            request_id=f"request-{number}",
            answered_at=now,
            stable=text,
            candidate=text,
            similarity=similarity,
            first_divergent_token=divergent,
        )
        assert await store.add(pair)
    await store.close()


def test_a_shadow_report_sums_up_the_pairs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shadow.db'}"
    asyncio.run(store_pairs(url))
    summed = run("shadow", "report", "--json", STAGEMESH_DIFFER__DATABASE_URL=url)
    assert summed.exit_code == 0, summed
    report = json.loads(summed.stdout)
    assert (report["rows"], report["compared"], report["identical_share"]) == (2, 2, 0.5)
    text = run("shadow", "report", "--examples", "2", STAGEMESH_DIFFER__DATABASE_URL=url).stdout
    assert "2 pairs, 2 compared" in text
    assert "request-1 (dev), similarity 0.500" in text
    assert "request-0" not in text
