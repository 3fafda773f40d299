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
    for part in ("acme", "33.3%", "26.7%", "1 × BAD_CHECKSUM", "1 × EVICTED: it had been stored"):
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


async def test_a_cache_service_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "stagemesh.yaml"
    path.write_text(yaml.safe_dump({"addresses": {"cache": ["127.0.0.1:9"]}}))
    away = await run(path, "stats")
    assert (away.exit_code, "no cache service answers" in away.stderr) == (3, True)


@pytest.mark.parametrize("name", ["stats", "top", "explain"])
def test_help_shows_examples(name: str) -> None:
    shown = CliRunner().invoke(main, ["cache", name, "--help"])
    assert "stagemesh cache explain" in shown.stdout
