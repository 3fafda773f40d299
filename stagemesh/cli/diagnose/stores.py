"""Redis and the broker: do they answer, how fast, with which clock, and can they write."""

from __future__ import annotations

import asyncio
import time
from statistics import median

from redis.asyncio import Redis
from redis.exceptions import RedisError

from stagemesh.cli.diagnose.evidence import RedisEvidence

ANSWER_S = 3.0
NUM_PINGS, PING_EVERY_S = 11, 0.03
"""With pauses between them, so that they do not all fall into one good or bad moment of the server."""
WRITE_STATES = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")


async def look_at_redis(name: str, url: str) -> RedisEvidence:
    client = Redis.from_url(url, socket_timeout=ANSWER_S, socket_connect_timeout=ANSWER_S, retry=None)
    try:
        async with asyncio.timeout(3 * ANSWER_S):
            await client.ping()
            delays_ms = [await _ping_ms(client) for _ in range(NUM_PINGS)]
            before_s = time.time()
            seconds, microseconds = await client.time()
            here_s = (before_s + time.time()) / 2
            return RedisEvidence(
                name=name,
                delay_ms=median(delays_ms),
                skew_s=int(seconds) + int(microseconds) / 1e6 - here_s,
                write_error=await _write_error(client),
            )
    except (RedisError, OSError, TimeoutError, ValueError):
        return RedisEvidence(name=name, reachable=False)
    finally:
        await client.aclose()


async def _ping_ms(client: Redis) -> float:
    await asyncio.sleep(PING_EVERY_S)
    started_s = time.perf_counter()
    await client.ping()
    return 1e3 * (time.perf_counter() - started_s)


async def _write_error(client: Redis) -> str:
    persistence = await client.info("persistence")
    wrong = [f"{name}: {persistence[name]}" for name in WRITE_STATES if persistence.get(name, "ok") != "ok"]
    return ", ".join(wrong)


async def look_at_broker(bootstrap: str) -> str:
    """Why the broker cannot be used; empty when it answers."""
    from confluent_kafka import KafkaException, Producer

    client = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": _ignore})
    try:
        await asyncio.to_thread(client.list_topics, timeout=ANSWER_S)
    except KafkaException:
        return f"{bootstrap} does not answer"
    return ""


def _ignore(_error: object) -> None:
    """The call itself fails and is reported."""
