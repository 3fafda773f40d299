"""The request ledger in Redis: what was accepted, who works on it, and its one final outcome.

    (absent) ──begin──▶ running ──finish──▶ final
                          │  ▲                ▲
                        defer└─claim──┐       │ finish (cancel, expire, dead-letter)
                          ▼           │       │
                        deferred ─────┴───────┘

A running entry has an owner with a lease. When the lease runs out, because its gateway died, another gateway claims the
entry and works on it again. The step to `final` is a compare-and-set inside Redis: whoever comes second loses.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from importlib import resources
from typing import cast

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.commands.core import AsyncScript

from services.gateway import known_requests
from services.gateway.event_store import stream_key
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2

LEASES = "stagemesh:ledger:leases"
DEAD_LETTERS = "stagemesh:ledger:dead-letters"
MAX_DEAD_LETTERS = 10_000
"""Dead letters that can be listed and run again; older ones keep their outcome only."""
TTL_MARGIN_S = 3_600
"""How much longer than its deadline an unfinished entry lives, so that a takeover can still end it."""
KNOWN_S = 3 * 86_400
"""How long it is known whose a request is: longer than what is kept of one that waits a day for its run."""
ERASED_TTL_S = 60
"""How long the outcome of a request is kept that ended after its user was erased: for its caller, who waits."""


class Begun(Enum):
    """What `begin` found."""

    NEW = "new"
    RUNNING = "running"
    DEFERRED = "deferred"
    FINAL = "final"
    MISMATCH = "mismatch"


@dataclass(frozen=True)
class Claim:
    """A request that this gateway now owns."""

    tenant_id: str
    request_id: str
    request: gateway_pb2.InferenceRequest
    payload_hash: bytes
    """Of what the caller sent: a repeat is told by it."""
    deadline_unix_s: float
    was_deferred: bool
    runs: int = 1
    """Which run this is; waiting for capacity is none."""


@dataclass(frozen=True)
class Entry:
    state: str
    """`running`, `deferred` or `final`."""
    final: gateway_pb2.Final | None
    payload_hash: bytes = b""


def _load(redis: Redis, name: str) -> AsyncScript:
    return redis.register_script(resources.files(__package__).joinpath("lua", f"{name}.lua").read_text())


def _key(tenant_id: str, request_id: str) -> str:
    # A tenant ID holds no colon and a request ID is a UUID, so keys cannot be forged.
    return f"stagemesh:ledger:request:{tenant_id}:{request_id}"


def _now_ms() -> int:
    return int(time.time() * 1000)


class Ledger:
    """Calls raise RedisError, OSError or TimeoutError when Redis is away; callers decide what that means."""

    def __init__(self, redis: Redis, *, owner: str, lease_s: float, outcome_ttl_s: int) -> None:
        self._redis = redis
        self._owner = owner
        self._lease_ms = int(lease_s * 1000)
        self._outcome_ttl_s = outcome_ttl_s
        self._begin, self._claim, self._defer = _load(redis, "begin"), _load(redis, "claim"), _load(redis, "defer")
        self._finish, self._renew = _load(redis, "finish"), _load(redis, "renew")
        self._revive, self._erase = _load(redis, "revive"), _load(redis, "erase")

    async def begin(
        self, tenant_id: str, request: gateway_pb2.InferenceRequest, payload_hash: bytes, deadline_unix_s: float
    ) -> tuple[Begun, gateway_pb2.Final | None]:
        """Accept `request`, or say in which state the same request is already."""
        now_ms = _now_ms()
        known_by = known_requests.keys_of(tenant_id, request)
        known: list[str | int] = (
            [known_requests.member_of(request), KNOWN_S, known_requests.MAX_REQUESTS] if known_by else []
        )
        state, final = await self._begin(
            keys=[_key(tenant_id, request.request_id), LEASES, *known_by],
            args=[
                payload_hash,
                request.SerializeToString(),
                self._owner,
                now_ms,
                now_ms + self._lease_ms,
                deadline_unix_s,
                max(1, int(deadline_unix_s - time.time())) + TTL_MARGIN_S,
                f"{tenant_id}:{request.request_id}",
                *known,
            ],
        )
        return Begun(state.decode()), gateway_pb2.Final.FromString(final) if final else None

    async def renew(self, requests: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Extend the leases of `(tenant, request)` pairs; gives those whose cancellation was asked for elsewhere."""
        pairs = list(requests)
        until_ms = _now_ms() + self._lease_ms
        async with self._redis.pipeline(transaction=False) as pipe:
            for tenant_id, request_id in pairs:
                await self._renew(
                    keys=[_key(tenant_id, request_id), LEASES],
                    args=[self._owner, until_ms, f"{tenant_id}:{request_id}"],
                    client=pipe,
                )
            wanted = await pipe.execute()
        return {pair for pair, cancel in zip(pairs, wanted, strict=True) if cancel}

    async def release(self, tenant_id: str, request_id: str) -> None:
        """Give an unfinished request up, so that another gateway takes it over at once."""
        await self._renew(
            keys=[_key(tenant_id, request_id), LEASES],
            args=[self._owner, _now_ms(), f"{tenant_id}:{request_id}"],
        )

    async def defer(
        self, tenant_id: str, request_id: str, expires_unix_s: float, *, pipeline: Pipeline | None = None
    ) -> bool:
        """running → deferred, if this gateway owns it. With `pipeline` only queued; its reply is 1 or 0."""
        return bool(
            await self._defer(
                client=pipeline,
                keys=[_key(tenant_id, request_id), LEASES],
                args=[
                    self._owner,
                    f"{tenant_id}:{request_id}",
                    expires_unix_s,
                    max(1, int(expires_unix_s - time.time())) + TTL_MARGIN_S,
                ],
            )
        )

    async def claim(self, tenant_id: str, request_id: str, *, deferred: bool) -> Claim | Entry | None:
        """Take over a request: one that is deferred (`deferred`), or one whose owner's lease has run out.

        Gives the Claim; or the Entry as it stands when it cannot be claimed; or None when it is unknown.
        """
        now_ms = _now_ms()
        state, payload, payload_hash, deadline, final, runs = await self._claim(
            keys=[_key(tenant_id, request_id), LEASES],
            args=[
                self._owner,
                now_ms,
                now_ms + self._lease_ms,
                f"{tenant_id}:{request_id}",
                "deferred" if deferred else "running",
            ],
        )
        if state == b"claimed":
            request = gateway_pb2.InferenceRequest.FromString(payload)
            return Claim(
                tenant_id, request_id, request, payload_hash, float(deadline), was_deferred=deferred, runs=int(runs)
            )
        if state == b"absent":
            return None
        return Entry(state.decode(), gateway_pb2.Final.FromString(final) if final else None)

    async def finish(self, tenant_id: str, final: gateway_pb2.Final, *, owned: bool = True) -> bool:
        """The one final transition; False when the request was final before, or (with `owned`) is somebody else's."""
        return bool(
            await self._finish(
                keys=[_key(tenant_id, final.request_id), LEASES, DEAD_LETTERS],
                args=[
                    self._owner if owned else "",
                    f"{tenant_id}:{final.request_id}",
                    common_pb2.Outcome.Name(final.outcome),
                    final.SerializeToString(),
                    _now_ms(),
                    self._outcome_ttl_s,
                    int(final.outcome == common_pb2.OUTCOME_REJECTED and final.error.retry_after_ms > 0),
                    MAX_DEAD_LETTERS if final.outcome == common_pb2.OUTCOME_DEAD_LETTERED else 0,
                    ERASED_TTL_S,
                ],
            )
        )

    async def revive(
        self, tenant_id: str, request_id: str, expires_unix_s: float, *, pipeline: Pipeline | None = None
    ) -> bool:
        """A dead letter → deferred, for an operator; False where it is none, or its payload has gone."""
        return bool(
            await self._revive(
                client=pipeline,
                keys=[_key(tenant_id, request_id), DEAD_LETTERS],
                args=[
                    f"{tenant_id}:{request_id}",
                    expires_unix_s,
                    max(1, int(expires_unix_s - time.time())) + TTL_MARGIN_S,
                ],
            )
        )

    async def forget_dead(self, tenant_id: str, request_id: str) -> bool:
        """A dead letter is not to be listed nor run again; its outcome stays. False where it is none."""
        if not await self._redis.zrem(DEAD_LETTERS, f"{tenant_id}:{request_id}"):
            return False
        await self._redis.hdel(_key(tenant_id, request_id), "payload")
        return True

    async def erase(self, tenant_id: str, request_id: str) -> str:
        """Keep nothing of a request, its events included; of one that has not ended, nothing after its end. Gives the
        state that it had, `absent` where there is none."""
        keys = [_key(tenant_id, request_id), DEAD_LETTERS, stream_key(tenant_id, request_id)]
        state: bytes = await self._erase(keys=keys, args=[f"{tenant_id}:{request_id}"])
        return state.decode()

    async def dead_letters(self, limit: int) -> list[tuple[str, str]]:
        """`(tenant, request)` of dead letters, the newest first."""
        members = cast("list[bytes]", await self._redis.zrevrange(DEAD_LETTERS, 0, limit - 1))
        pairs = (member.decode().rpartition(":") for member in members)
        return [(tenant_id, request_id) for tenant_id, _, request_id in pairs]

    async def request_of(self, tenant_id: str, request_id: str) -> gateway_pb2.InferenceRequest | None:
        """What was asked, while it may still run; None afterwards."""
        payload = cast("bytes | None", await self._redis.hget(_key(tenant_id, request_id), "payload"))
        return gateway_pb2.InferenceRequest.FromString(payload) if payload else None

    async def lookup(self, tenant_id: str, request_id: str) -> Entry | None:
        """The entry of a request, None if unknown."""
        fields = await self._redis.hmget(_key(tenant_id, request_id), "state", "final", "payload_hash")
        state, final, payload_hash = cast("list[bytes | None]", fields)
        if state is None:
            return None
        return Entry(state.decode(), gateway_pb2.Final.FromString(final) if final else None, payload_hash or b"")

    async def ask_cancel(self, tenant_id: str, request_id: str) -> None:
        """Have the owner cancel it at its next renewal."""
        key = _key(tenant_id, request_id)
        if await self._redis.exists(key):
            await self._redis.hset(key, "cancel", "1")

    async def expired_leases(self, limit: int = 64) -> list[tuple[str, str]]:
        """`(tenant, request)` of running entries whose owner fell silent."""
        members = cast("list[bytes]", await self._redis.zrangebyscore(LEASES, "-inf", _now_ms(), start=0, num=limit))
        pairs = (member.decode().rpartition(":") for member in members)
        return [(tenant_id, request_id) for tenant_id, _, request_id in pairs]

    async def forget_lease(self, tenant_id: str, request_id: str) -> None:
        """Drop a lease whose entry is gone."""
        await self._redis.zrem(LEASES, f"{tenant_id}:{request_id}")
