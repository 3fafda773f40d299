"""The embedded Valkey server as `stagemesh up` runs it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from stagemesh.embedded import acl, valkey
from stagemesh.embedded.valkey_kind import Kind


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(
    state_dir: Path, port: int, password: str, kind: Kind = Kind.LEDGER
) -> Iterator[tuple[subprocess.Popen[bytes], redis.Redis]]:
    process = subprocess.Popen(valkey.command(state_dir, port, password, kind=kind), stdout=subprocess.DEVNULL)
    client = redis.Redis.from_url(valkey.url(port, password), socket_timeout=2)
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                client.ping()
                break
            except redis.ConnectionError:
                assert process.poll() is None, "the server ended instead of starting"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.02)
        yield process, client
    finally:
        client.close()
        process.kill()
        process.wait()


def start_and_fail(state_dir: Path) -> tuple[int, str]:
    ended = subprocess.run(
        valkey.command(state_dir, free_port(), "secret"), capture_output=True, text=True, timeout=20, check=False
    )
    return ended.returncode, ended.stderr


def append_only_file(state_dir: Path) -> Path:
    (path,) = valkey.data_folder(state_dir).glob(valkey.AOF_PATTERN)
    return path


def fill(state_dir: Path) -> None:
    with running(state_dir, free_port(), "secret") as (_, client):
        for i in range(100):
            client.set(f"key{i}", "value" * 20)


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    port, password = free_port(), valkey.load_password(tmp_path)
    with running(tmp_path, port, password) as (process, client):
        client.set("kept", "yes")
        process.kill()
        process.wait()
    with running(tmp_path, port, password) as (_, client):
        assert client.get("kept") == b"yes"


def test_the_password_is_required_and_stays_the_same_and_is_in_no_command_line(tmp_path: Path) -> None:
    password = valkey.load_password(tmp_path)
    assert len(password) >= 32
    assert valkey.load_password(tmp_path) == password
    assert not any(password in part for part in valkey.command(tmp_path, 1, password))
    port = free_port()
    with running(tmp_path, port, password):
        stranger = redis.Redis(port=port)
        with pytest.raises(redis.AuthenticationError):
            stranger.ping()
        stranger.close()
    for name in ("password", "valkey.conf"):
        assert (valkey.data_folder(tmp_path) / name).stat().st_mode & 0o077 == 0


def test_nothing_is_evicted_and_writes_reach_the_disk_before_the_reply(tmp_path: Path) -> None:
    with running(tmp_path, free_port(), "secret") as (_, client):
        wanted = {"maxmemory-policy": "noeviction", "appendonly": "yes", "appendfsync": "always", "bind": "127.0.0.1"}
        assert {key: client.config_get(key)[key] for key in wanted} == wanted


def test_a_second_server_on_the_same_folder_is_refused_with_a_reason(tmp_path: Path) -> None:
    with running(tmp_path, free_port(), "secret") as (process, _):
        code, message = start_and_fail(tmp_path)
        assert (code, f"in use by process {process.pid}" in message) == (75, True)


def test_a_torn_last_record_does_not_stop_the_start(tmp_path: Path) -> None:
    fill(tmp_path)
    path = append_only_file(tmp_path)
    os.truncate(path, path.stat().st_size - 20)
    with running(tmp_path, free_port(), "secret") as (_, client):
        assert client.dbsize() == 99


def test_a_damaged_file_is_named_with_the_way_to_repair_it(tmp_path: Path) -> None:
    fill(tmp_path)
    path = append_only_file(tmp_path)
    content = path.read_bytes()
    at = content.index(b"*3", len(content) // 2)
    path.write_bytes(content[:at] + b"zz" + content[at + 2 :])
    code, message = start_and_fail(tmp_path)
    assert code == 78
    assert str(path) in message
    assert "--repair" in message

    folder = valkey.data_folder(tmp_path)
    subprocess.run([sys.executable, "-m", "stagemesh.embedded.valkey", "--repair", str(folder)], check=True, timeout=20)
    with running(tmp_path, free_port(), "secret") as (_, client):
        assert 30 < client.dbsize() < 70
    assert path.with_name(path.name + ".damaged").exists()


def test_a_full_disk_is_said_before_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(valkey, "MIN_FREE_BYTES", 1 << 60)
    with pytest.raises(SystemExit) as ended:
        valkey.check_disk(tmp_path)
    assert ended.value.code == 75
    assert "free some space" in capsys.readouterr().err


@contextmanager
def kv_store(state_dir: Path) -> Iterator[tuple[subprocess.Popen[bytes], redis.Redis]]:
    with running(state_dir, free_port(), "secret", Kind.KV) as server:
        yield server


def end(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    process.send_signal(number)
    process.wait(timeout=20)


def test_the_store_of_pages_evicts_nothing_by_itself_and_writes_nothing_while_it_runs(tmp_path: Path) -> None:
    with kv_store(tmp_path) as (_, client):
        wanted = {"maxmemory-policy": "noeviction", "appendonly": "no", "save": "", "bind": "127.0.0.1"}
        assert {key: client.config_get(key)[key] for key in wanted} == wanted


def test_pages_outlive_a_stop_with_their_time_to_live(tmp_path: Path) -> None:
    with kv_store(tmp_path) as (process, client):
        client.set("page", b"\xff" * 1000, ex=1000)
        end(process, signal.SIGTERM)
    for _ in range(2):  # a stop saves again what the start before has loaded
        with kv_store(tmp_path) as (process, client):
            assert client.get("page") == b"\xff" * 1000
            assert 900 < client.ttl("page") <= 1000
            end(process, signal.SIGTERM)


def test_what_was_erased_does_not_come_back_after_a_kill(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with kv_store(tmp_path) as (process, client):
        client.set("page", "of a session")
        end(process, signal.SIGTERM)
    with kv_store(tmp_path) as (process, client):
        client.delete("page")
        end(process, signal.SIGKILL)
    with kv_store(tmp_path) as (_, client):
        assert client.dbsize() == 0
    assert "ended without saving" in capfd.readouterr().err


def test_a_damaged_snapshot_is_dropped_and_so_is_one_that_was_not_finished_and_both_are_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with kv_store(tmp_path) as (process, client):
        client.set("page", b"\xff" * 1000)
        end(process, signal.SIGTERM)
    folder = valkey.data_folder(tmp_path, Kind.KV)
    snapshot = folder / valkey.SNAPSHOT
    content = bytearray(snapshot.read_bytes())
    content[len(content) // 2] ^= 1
    snapshot.write_bytes(content)
    (folder / "temp-1.rdb").write_bytes(b"half")
    with kv_store(tmp_path) as (_, client):
        assert client.dbsize() == 0
    assert not (folder / "temp-1.rdb").exists()
    told = capfd.readouterr().err
    assert "dump.rdb is damaged" in told
    assert "cut off while it saved" in told


def test_the_two_servers_of_a_mesh_have_their_own_folders_and_passwords(tmp_path: Path) -> None:
    passwords = {valkey.load_password(tmp_path, kind) for kind in Kind}
    assert len(passwords) == 2
    assert valkey.data_folder(tmp_path, Kind.KV) != valkey.data_folder(tmp_path)


def as_user(port: int, password: str, service: str) -> redis.Redis:
    return redis.Redis.from_url(valkey.url(port, password, service), socket_timeout=2)


@pytest.mark.parametrize(
    ("kind", "service", "own", "others"),
    [
        (
            Kind.LEDGER,
            "gateway",
            ["stagemesh:ledger:x", "stagemesh:tenants", "outbox:{t}:order"],
            ["stagemesh:cache:x"],
        ),
        (Kind.LEDGER, "cache", ["stagemesh:cache:{t}:x"], ["stagemesh:ledger:x", "stagemesh:tenant-keys", "outbox:x"]),
        (Kind.LEDGER, "differ", ["outbox:{t}:order"], ["stagemesh:cache:x", "stagemesh:ledger:x"]),
        (Kind.KV, "cache", ["stagemesh:kv:{t}:v:x"], ["stagemesh:cache:x", "x"]),
        (Kind.KV, "engine", ["stagemesh:kv:{t}:v:x"], ["stagemesh:cache:x", "x"]),
    ],
)
def test_each_service_reaches_its_own_keys_alone(
    tmp_path: Path, kind: Kind, service: str, own: list[str], others: list[str]
) -> None:
    port = free_port()
    with running(tmp_path, port, "secret", kind), as_user(port, "secret", service) as client:
        for key in own:
            client.set(key, "1", ex=60)
            assert client.eval("return redis.call('GET', ARGV[1])", 0, key) == b"1"
        for key in others:
            for attempt in (
                client.get,
                client.delete,
                lambda key: client.eval("redis.call('SET', ARGV[1], 1)", 0, key),
            ):
                with pytest.raises((redis.exceptions.NoPermissionError, redis.exceptions.ResponseError)):
                    attempt(key)
        for command in ("KEYS *", "FLUSHALL", "CONFIG GET *", "ACL LIST", "SHUTDOWN", "MONITOR"):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*command.split())


def test_the_worker_reads_bodies_and_writes_nothing(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port, "secret") as (_, admin), as_user(port, "secret", "worker") as client:
        admin.set("outbox:{t}:body:x", "body")
        assert client.get("outbox:{t}:body:x") == b"body"
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.delete("outbox:{t}:body:x")


def test_a_service_that_needs_no_server_has_no_user_there(tmp_path: Path) -> None:
    port = free_port()
    with running(tmp_path, port, "secret", Kind.KV):
        for service in ("gateway", "tokenizer", "worker"):
            with as_user(port, "secret", service) as client, pytest.raises(redis.exceptions.AuthenticationError):
                client.ping()


def test_the_files_for_servers_of_ones_own_say_the_same(tmp_path: Path) -> None:
    folder = Path(__file__).parents[2] / "deploy" / "redis"
    for kind, name in ((Kind.LEDGER, "ledger.acl"), (Kind.KV, "kv.acl")):
        written = [line for line in (folder / name).read_text().splitlines() if line.startswith("user ")]
        expected = [user.rule(f"CHANGE-{user.service.upper()}") for user in acl.USERS[kind]]
        assert written[1:] == expected
        assert written[0] == "user default on >CHANGE-ADMIN ~* &* +@all"
