"""`stagemesh cache` against a cache service that is a process of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from quality_support import free_port, ready, running_valkey, start

from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1.common_pb2 import KvReport
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.cli import cache_view
from stagemesh.cli.commands.kb import warn_of_unknown_tenant
from stagemesh.cli.main import main
from stagemesh.runtime.channel import dial

HIT = KvReport(store_tokens=64, computed_tokens=16, load_us=2_500)
MISS = KvReport(computed_tokens=80, miss_cause="BAD_CHECKSUM")


@pytest.fixture
async def config(tmp_path: Path) -> AsyncIterator[Path]:
    """The configuration of a cache service that was told of three requests."""
    address = f"127.0.0.1:{free_port()}"
    path = tmp_path / "stagemesh.yaml"
    path.write_text(yaml.safe_dump({"addresses": {"cache": [address]}}))
    with running_valkey(tmp_path) as server:
        urls = {"STAGEMESH_LEDGER_URL": server.url, "STAGEMESH_KV_URL": server.url}
        process = start("cache", {**urls, "STAGEMESH_CACHE__LISTEN": address, "STAGEMESH_LOG_LEVEL": "WARNING"})
        channel = dial([address])
        try:
            await ready(process, channel, "stagemesh.api.cache.v1.CacheService")
            stub = cache_pb2_grpc.CacheServiceStub(channel)
            for name, kv, miss in (
                ("hit", HIT, ""),
                ("lost", MISS, ""),
                ("first", KvReport(computed_tokens=80), "EVICTED"),
            ):
                use = cache_pb2.CacheUse(
                    request_id=name, session_id="s", session_tokens=64, prompt_tokens=80, kv=kv, lookup_miss=miss
                )
                await stub.Release(cache_pb2.ReleaseRequest(tenant_id="acme", use=use), timeout=20)
            yield path
        finally:
            await channel.close()
            process.kill()
            process.wait()


async def run(config: Path, *arguments: str) -> Result:
    command = ["cache", *arguments, "--config", str(config), "--state", str(config.parent / "none")]
    return await asyncio.to_thread(CliRunner().invoke, main, command, env={"NO_COLOR": "1"})


async def test_stats_top_and_explain_say_what_was_reused_and_why_not(config: Path) -> None:
    shown = await run(config, "stats")
    assert shown.exit_code == 0, shown.stderr
    for part in (
        "acme",
        "33.3%",
        "26.7%",
        "1 × BAD_CHECKSUM: the stored page was damaged",
        "1 × EVICTED: it had been stored",
    ):
        assert part in shown.stdout
    (tenant,) = json.loads((await run(config, "stats", "--json")).stdout)["tenants"]
    assert (tenant["requests"], tenant["session_hit_ratio"], tenant["store_tokens"]) == (3, 0.3333, 64)
    assert tenant["stored"]["pages"] == 0
    (session,) = json.loads((await run(config, "top", "--json")).stdout)
    assert (session["session_id"], round(session["heat"], 1)) == ("s", 3.0)
    assert "acme" in (await run(config, "top")).stdout
    explained = (await run(config, "explain", "hit")).stdout
    assert "64 from the KV Redis, 16 computed" in explained
    assert "loading took 2.5 ms" in explained
    assert json.loads((await run(config, "explain", "LOST", "--json")).stdout)["engine_miss"] == "BAD_CHECKSUM"


async def test_what_is_not_remembered_is_said(config: Path) -> None:
    for arguments in (("explain", "unknown"), ("explain", "hit", "--tenant", "other")):
        missing = await run(config, *arguments)
        assert (missing.exit_code, "REQUEST_NOT_FOUND" in missing.stderr) == (4, True)


@pytest.mark.parametrize("tenant", ["a\x1b[2J", "x" * 257])
@pytest.mark.parametrize("command", ["stats", "top"])
async def test_tenants_that_no_gateway_would_take_are_refused(config: Path, tenant: str, command: str) -> None:
    refused = await run(config, command, "--tenant", tenant)
    assert (refused.exit_code, "INVALID_IDENTIFIER" in refused.stderr) == (4, True)
    assert "\x1b" not in refused.stderr


def test_the_pages_that_a_full_store_refused_are_shown() -> None:
    load = engine_pb2.WatchLoadResponse(instance="e", kv=engine_pb2.KvStats(sums={"saves_dropped/STORE_FULL": 7}))
    assert cache_view.stats_json(cache_pb2.StatsResponse(), [load])["engines"][0]["not_stored_full_pages"] == 7
    assert "refused 7 pages" in cache_view.full_words(load)


async def test_a_cache_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stagemesh.yaml"
    path.write_text(yaml.safe_dump({"addresses": {"cache": ["127.0.0.1:9"]}}))
    away = await run(path, "stats")
    assert (away.exit_code, "no cache service answers" in away.stderr) == (3, True)


@pytest.mark.parametrize("name", ["stats", "top", "explain", "warm"])
def test_help_shows_examples(name: str) -> None:
    shown = CliRunner().invoke(main, ["cache", name, "--help"])
    assert f"stagemesh cache {name} " in shown.stdout
    assert shown.stdout.count("stagemesh cache ") == shown.stdout.count(f"stagemesh cache {name}")


def test_a_sync_for_a_tenant_that_the_mesh_does_not_know_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_valkey(tmp_path) as server:
        monkeypatch.setenv("STAGEMESH_LEDGER_URL", server.url)
        for tenant, warned in (("dev", False), ("nobody", True)):
            warn_of_unknown_tenant(tmp_path / "none", None, tenant)
            assert ("no tenant 'nobody'" in capsys.readouterr().err) is warned
    warn_of_unknown_tenant(tmp_path / "none", None, "nobody")  # the ledger is away: nothing is known
    assert capsys.readouterr().err == ""
