"""The durable outbox: events wait in the ledger Redis until their effect is done, whatever the broker loses meanwhile.

    put ──▶ waiting ──claim_due──▶ published ──(not removed in time)──▶ waiting …
                                       └──remove (the effect is done)──▶ gone

A relay publishes what is due. At most `window` entries are published and unconfirmed at a time, so the order of
priority is decided here, at the last moment, and the broker holds little.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio.client import Pipeline
from redis.exceptions import OutOfMemoryError, RedisError

from stagemesh.api.events.v1 import events_pb2
from stagemesh.runtime import outbox_scripts as scripts
from stagemesh.runtime.errors import Exhausted, InvalidRequest
from stagemesh.runtime.redis_client import Redis, as_unavailable
from stagemesh.runtime.topics import MAX_RECORD_BYTES, Topic

MAX_PRIORITY = 100
KEEP_S = 3600
"""How long an expired entry stays for whoever must say so, before Redis forgets it by itself."""
MAX_BACKOFF_DOUBLINGS = 3
"""A repeated entry waits twice as long each time, up to 2³ times `republish_after_s`."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One event as it waits."""

    tenant_id: str
    request_id: str
    record: bytes
    """What the Kafka record carries: the serialized envelope, or a small one with `body_key`."""
    tries: int = 0
    """How often it was published, this time included."""


@dataclass(frozen=True, kw_only=True)
class Lag:
    count: int
    oldest_s: float
    """0 when nothing waits."""


class Outbox:
    """The outbox of one topic. Any number of processes may use it at once.

    Entries are identified by tenant and request ID, since two tenants may choose the same request ID.
    All methods raise Unavailable (LEDGER_UNAVAILABLE) when Redis cannot be used.
    """

    def __init__(self, redis: Redis, topic: Topic, *, ttl_s: float, max_entries: int, prefix: str = "") -> None:
        """`ttl_s`: after that an entry is expired and appears in `expired`. `prefix`: the mesh's topic prefix."""
        self._redis = redis
        self.topic = topic
        self.topic_name = topic.name(prefix)
        self._ttl_ms = int(ttl_s * 1000)
        self._keep_ms = self._ttl_ms + KEEP_S * 1000
        self._max_entries = max_entries
        self._base = f"outbox:{{{self.topic_name}}}"
        self._keys = [f"{self._base}:{name}" for name in ("bodies", "order", "expiry", "due", "tries", "since")]

    async def put(
        self,
        envelope: events_pb2.Envelope,
        *,
        priority: int = 0,
        ttl_s: float | None = None,
        pipeline: Pipeline | None = None,
    ) -> bool:
        """Store an event durably; a repeat of the same tenant and request ID changes nothing. `ttl_s`: less than usual.

        False when the outbox is full. Raises Exhausted (OUTBOX_FULL) when Redis has no memory left.
        With `pipeline` only the command is queued, and there is no limit then: ask `has_room` before. It gives 1.
        """
        if not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
            raise InvalidRequest("PRIORITY_OUT_OF_RANGE", f"priority must lie within ±{MAX_PRIORITY}", field="priority")
        entry_id = _entry_id(envelope.tenant_id, envelope.request_id)
        record, body = self._split(envelope)
        keys = [*self._keys, *([self._body_key(entry_id)] if body else [])]
        limit = 0 if pipeline is not None else self._max_entries
        arguments: list[str | bytes | int] = [
            entry_id,
            record,
            priority,
            self._ttl_ms if ttl_s is None else min(self._ttl_ms, int(ttl_s * 1000)),
            self._keep_ms,
            limit,
            *([body] if body else []),
        ]
        if pipeline is not None:
            pipeline.eval(scripts.PUT, len(keys), *keys, *arguments)
            return True
        return bool(await self._eval(scripts.PUT, keys, *arguments))

    async def has_room(self) -> bool:
        """Whether one more event may be put."""
        return await self.count() < self._max_entries

    async def remove(self, tenant_id: str, request_id: str, *, pipeline: Pipeline | None = None) -> bool:
        """The effect is done: forget the event. False if it was not there. With `pipeline` only queued."""
        entry_id = _entry_id(tenant_id, request_id)
        keys = [*self._keys, self._body_key(entry_id)]
        if pipeline is not None:
            pipeline.eval(scripts.REMOVE, len(keys), *keys, entry_id)
            return True
        return bool(await self._eval(scripts.REMOVE, keys, entry_id))

    async def claim_due(self, limit: int, republish_after_s: float, *, window: int = 256) -> list[Entry]:
        """Take what is to be published now: highest priority first, then oldest; at most `limit`.

        No other call gives the same entry again before `republish_after_s` (doubling with each repeat) is over.
        """
        republish_ms = int(republish_after_s * 1000)
        reply = await self._eval(
            scripts.CLAIM, self._keys, limit, window, republish_ms, MAX_BACKOFF_DOUBLINGS, self._keep_ms
        )
        parts = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
        return [_entry(entry_id, record, int(tries)) for entry_id, tries, record in parts]

    async def unclaim(self, entry: Entry) -> None:
        """The entry could not be published: it is due again at once."""
        await self._eval(scripts.UNCLAIM, self._keys[3:5], _entry_id(entry.tenant_id, entry.request_id))

    async def expired(self, limit: int) -> list[Entry]:
        """Entries older than `ttl_s`, oldest first; they stay until they are removed."""
        reply = await self._eval(scripts.EXPIRED, [self._keys[0], self._keys[2]], limit)
        return [_entry(entry_id, record) for entry_id, record in zip(reply[::2], reply[1::2], strict=True)]

    async def get(self, tenant_id: str, request_id: str) -> events_pb2.Envelope | None:
        """The stored event in full, or None."""
        entry_id = _entry_id(tenant_id, request_id)
        try:
            record = await cast("Awaitable[bytes | None]", self._redis.hget(self._keys[0], entry_id))
        except (RedisError, OSError) as error:
            raise as_unavailable(error) from error
        return None if record is None else await resolve(self._redis, events_pb2.Envelope.FromString(record))

    async def count(self) -> int:
        """How many events wait for their effect."""
        try:
            return await self._redis.hlen(self._keys[0])
        except (RedisError, OSError) as error:
            raise as_unavailable(error) from error

    async def lag(self) -> Lag:
        """How many events wait for their effect, and for how long the oldest has."""
        count, oldest_ms = await self._eval(scripts.LAG, [self._keys[0], self._keys[5]])
        return Lag(count=count, oldest_s=oldest_ms / 1000)

    async def most_urgent(self, offset: int, limit: int) -> list[tuple[str, str]]:
        """`(tenant, request)` of entries in the order in which they are to be worked off: `list` without records."""
        try:
            ids = cast("list[bytes]", await self._redis.zrange(self._keys[1], offset, offset + limit - 1))
        except (RedisError, OSError) as error:
            raise as_unavailable(error) from error
        return [(entry.tenant_id, entry.request_id) for entry in (_entry(entry_id, b"") for entry_id in ids)]

    async def list(self, offset: int, limit: int) -> list[Entry]:
        """Entries in the order in which they will be published."""
        try:
            ids = cast("list[bytes]", await self._redis.zrange(self._keys[1], offset, offset + limit - 1))
            records = await cast("Awaitable[list[bytes | None]]", self._redis.hmget(self._keys[0], ids)) if ids else []
        except (RedisError, OSError) as error:
            raise as_unavailable(error) from error
        return [_entry(entry_id, record) for entry_id, record in zip(ids, records, strict=True) if record is not None]

    def _split(self, envelope: events_pb2.Envelope) -> tuple[bytes, bytes | None]:
        """The record, and the body that must be kept beside it because it is too large for a record."""
        serialized = envelope.SerializeToString()
        if len(serialized) <= MAX_RECORD_BYTES:
            return serialized, None
        reference = events_pb2.Envelope(
            event_id=envelope.event_id,
            request_id=envelope.request_id,
            tenant_id=envelope.tenant_id,
            occurred_at=envelope.occurred_at,
            schema_version=envelope.schema_version,
            body_key=self._body_key(_entry_id(envelope.tenant_id, envelope.request_id)),
        )
        return reference.SerializeToString(), serialized

    def _body_key(self, entry_id: str) -> str:
        return f"{self._base}:body:{entry_id}"

    async def _eval(self, script: str, keys: Iterable[str], *arguments: str | bytes | int) -> Any:
        keys = [*keys]
        try:
            return await self._redis.eval(script, len(keys), *keys, *arguments)
        except OutOfMemoryError:
            raise Exhausted("OUTBOX_FULL", "the ledger has no memory left for events", retry_after_ms=5000) from None
        except (RedisError, OSError) as error:
            raise as_unavailable(error) from error


async def resolve(redis: Redis, envelope: events_pb2.Envelope) -> events_pb2.Envelope | None:
    """The envelope with its body fetched from Redis where it only refers to it; None when that body is gone."""
    if envelope.WhichOneof("body") != "body_key":
        return envelope
    try:
        body = cast("bytes | None", await redis.get(envelope.body_key))
    except (RedisError, OSError) as error:
        raise as_unavailable(error) from error
    return None if body is None else events_pb2.Envelope.FromString(body)


def _entry_id(tenant_id: str, request_id: str) -> str:
    if ":" in request_id:
        raise InvalidRequest("REQUEST_ID_INVALID", "a request ID contains no colon", field="request_id")
    return f"{tenant_id}:{request_id}"


def _entry(entry_id: bytes, record: bytes, tries: int = 0) -> Entry:
    tenant_id, _, request_id = entry_id.decode().rpartition(":")
    return Entry(tenant_id=tenant_id, request_id=request_id, record=record, tries=tries)
