"""From `stagemesh.corrections.v1` into the store of cases: what tenants share, without what was erased."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, Producer

from services.corrector.corrector import source_of
from services.corrector.training.store import Case, CaseStore
from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime import tenants
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.kafka_client import Settings, client_settings
from stagemesh.runtime.kafka_consumer import EventConsumer
from stagemesh.runtime.redis_client import Redis
from stagemesh.runtime.telemetry import get_logger
from stagemesh.runtime.topics import CORRECTIONS

GROUP = "stagemesh-corrections"
LOOK_S = 0.2
ASK_S = 10.0
JOIN_S = 30.0
"""What joining the group may take."""

log = get_logger(__name__)


@dataclass
class Collected:
    added: int = 0
    erased: int = 0
    """Cases of users and sessions that are to be forgotten."""
    ignored: int = 0
    """Of tenants that do not share, erased meanwhile, or here already."""
    dropped_tenants: list[str] = field(default_factory=list)
    """That shared earlier and do not any longer: what was collected of them is deleted."""


async def collect(
    *, bootstrap: str, settings: Settings | None, prefix: str, redis: Redis, store: CaseStore, idle_s: float
) -> Collected:
    """Take what the broker has, until nothing came for `idle_s`. Raises Unavailable, RedisError, OSError."""
    sharing = await tenants.sharing_corrections(redis)
    done = Collected(dropped_tenants=store.keep_only(sharing))
    topic = CORRECTIONS.name(prefix)
    if not await asyncio.to_thread(_has_topic, client_settings(bootstrap, settings), topic):
        return done  # nothing was ever shared

    async def handle(envelope: events_pb2.Envelope, attempt: int) -> None:
        take(envelope, sharing, store, done)

    async def give_up(envelope: events_pb2.Envelope, attempts: int, error: Exception) -> None:
        log.error("correction not stored", request_id=envelope.request_id, error=str(error))

    consumer = EventConsumer(
        bootstrap=bootstrap, group=GROUP, topics=[topic], redis=redis, handle=handle,
        give_up=give_up, settings=settings,
    )  # fmt: skip
    consumer.start()
    try:
        await _until_idle(consumer, idle_s)
    finally:
        await consumer.stop(5.0)
    return done


def _has_topic(settings: dict[str, Any], topic: str) -> bool:
    """Raises Unavailable."""
    try:
        return topic in Producer(settings).list_topics(timeout=ASK_S).topics
    except KafkaException as error:
        raise Unavailable("BROKER_UNAVAILABLE", f"the broker does not answer: {error}") from error


async def _until_idle(consumer: EventConsumer, idle_s: float) -> None:
    joined_by_s = time.monotonic() + JOIN_S
    while not consumer.counts.assignments:
        if time.monotonic() > joined_by_s:
            raise Unavailable("BROKER_UNAVAILABLE", f"the broker gave no partitions within {JOIN_S:.0f} s")
        await asyncio.sleep(LOOK_S)
    handled, since_s = -1, time.monotonic()
    while time.monotonic() - since_s < idle_s:
        counts = consumer.counts
        now = counts.handled + counts.skipped + counts.given_up + counts.assignments
        if now != handled:
            handled, since_s = now, time.monotonic()
        await asyncio.sleep(LOOK_S)


def take(envelope: events_pb2.Envelope, sharing: frozenset[str], store: CaseStore, done: Collected) -> None:
    """Put one event into the store."""
    occurred_ms = envelope.occurred_at.ToMilliseconds()
    match envelope.WhichOneof("body"):
        case "user_erased":
            kind = "user" if envelope.user_erased.WhichOneof("what") == "user_id" else "session"
            id_ = envelope.user_erased.user_id or envelope.user_erased.session_id
            done.erased += store.erase(envelope.tenant_id, kind, id_, occurred_ms)
        case "correction" if envelope.tenant_id in sharing:
            is_new = store.add(_case(envelope, occurred_ms))
            done.added += is_new
            done.ignored += not is_new
        case _:
            done.ignored += 1


def _case(envelope: events_pb2.Envelope, occurred_ms: int) -> Case:
    body = envelope.correction
    return Case(
        tenant_id=envelope.tenant_id,
        event_id=envelope.event_id,
        user_id=body.user_id,
        session_id=body.session_id,
        occurred_ms=occurred_ms,
        text=body.request.text,
        schema=body.request.constraint.json_schema,
        source=source_of(body.request),
        value=body.correction.value,
        valid=body.correction.valid,
        certain=body.correction.certain and bool(body.request.constraint.json_schema),
    )
