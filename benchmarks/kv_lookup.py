"""What a lookup in the directory of stored KV pages costs: the caller's wait and the server's time, by length of chain.

    python benchmarks/kv_lookup.py [--json] [--busy] [--rounds 50]

A real Valkey on this machine; values of 100 bytes, since a lookup does not read them. `--busy`: beside other work.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import redis

from benchmarks.kv_server import running_valkey
from benchmarks.lock import benchmark_lock, no_lock
from stagemesh.api.common.v1.common_pb2 import KvLease
from stagemesh.runtime.kv_directory import Holder, KvDirectory, KvLimits, PublishedPage, publish
from stagemesh.runtime.kv_keys import PAGE_TOKENS, namespace, value_name
from stagemesh.runtime.redis_client import connect

TTL_S = 1_000
LENGTHS = (1, 16, 128, 512, 4_096)
HOLDER = Holder(session_id="session", user_id="user")


async def measure(url: str, rounds: int) -> list[dict[str, float]]:
    client, space = connect(url), namespace("tenant", 1)
    try:
        with redis.Redis.from_url(url) as sync:
            directory = KvDirectory(client)
            budget = 1 << 30
            limits = KvLimits(epoch=1, total_bytes=budget, tenant_bytes=budget, pinned_bytes=0, tau_s=300.0)
            await directory.set_limits(limits)
            return [await _measure(sync, directory, space, length, rounds) for length in LENGTHS]
    finally:
        await client.aclose()


async def _measure(
    sync: redis.Redis, directory: KvDirectory, space: bytes, length: int, rounds: int
) -> dict[str, float]:
    digests = [hashlib.sha256(b"%d %d" % (length, i)).digest() for i in range(length)]
    lease: dict[str, Any] = {"lease_id": "lease", "lease_ttl_s": TTL_S, "holder": HOLDER}
    await directory.lookup(space, [], ttl_s=TTL_S, **lease)
    for digest in digests:
        sync.set(value_name(space, digest), b"x" * 100, ex=TTL_S)
    publish(
        sync,
        KvLease(lease_id="lease", namespace=space, epoch=1, ttl_s=TTL_S),
        [PublishedPage(digest, 100) for digest in digests],
    )
    sync.config_resetstat()
    waits_ms = []
    for _ in range(rounds):
        started_s = time.perf_counter()
        found = await directory.lookup(space, digests, ttl_s=TTL_S, **lease)
        waits_ms.append((time.perf_counter() - started_s) * 1e3)
        assert found.pages == length
    server: Any = sync.info("commandstats")
    return {
        "tokens": length * PAGE_TOKENS,
        "wait_ms": round(statistics.median(waits_ms), 3),
        "wait_p90_ms": round(sorted(waits_ms)[rounds * 9 // 10], 3),
        "server_ms": round(server["cmdstat_evalsha"]["usec_per_call"] / 1e3, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON list")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--rounds", type=int, default=50)
    given = parser.parse_args()
    alone = no_lock() if given.busy else benchmark_lock()
    with alone, tempfile.TemporaryDirectory() as folder, running_valkey(Path(folder)) as url:
        found = asyncio.run(measure(url, given.rounds))
    if given.json:
        print(json.dumps(found))
        return
    print("tokens   wait median   p90   on the server (ms)")
    for row in found:
        print(f"{row['tokens']:6,}   {row['wait_ms']:11.2f}  {row['wait_p90_ms']:5.2f}   {row['server_ms']:.2f}")


if __name__ == "__main__":
    main()
