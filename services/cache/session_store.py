"""Sessions in Redis. Each change is one Lua script, so it happens whole or not at all.

Every method is one Redis operation in the sense of `RedisGuard`: it raises redis-py's errors.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from services.cache.config import CacheConfig
from services.cache.encoding import pack_messages, pack_tokens, unpack_tokens
from services.cache.keys import TenantKeys
from services.cache.lease import LeaseStamp, public_salt_of, salt_of
from services.cache.root import Root, RootReader
from services.cache.session import Committed, Opened, PageEnd, SessionEntry, StoredSession, Turn
from stagemesh.api.common.v1.common_pb2 import ChatMessages, ModelIdentity
from stagemesh.runtime.errors import Exhausted, Forbidden, Precondition
from stagemesh.runtime.redis_client import Redis

MAX_SEEN = 64
"""Commits per session that are remembered, so that a repeated one is recognized."""
FORGET_BATCH = 100
SYSTEM_ROLES = frozenset({"system", "developer"})
NO_MODEL = ModelIdentity()


class SessionStore:
    def __init__(self, client: Redis, config: CacheConfig) -> None:
        def script(name: str) -> Any:
            source = files("services.cache").joinpath("scripts", f"{name}.lua").read_text(encoding="utf-8")
            return client.register_script(source)

        self._client = client
        self._config = config
        self._open, self._commit, self._forget, self._page = map(script, ("open", "commit", "forget", "page"))
        # The root must outlive whatever lies under it.
        root_ttl_s = max(30 * 86_400, 2 * config.session_ttl_s)
        self._root = RootReader(script("root"), refresh_s=config.root_refresh_ms / 1000, ttl_s=root_ttl_s)

    async def root(self) -> Root:
        """Epoch and secret, made on first use; proves that the store works."""
        return await self._root.read()

    async def resolve(self, tenant_id: str, model: ModelIdentity) -> Opened:
        return self._resolved(await self._root.read(), tenant_id, model)

    def resolve_at_once(self, tenant_id: str, model: ModelIdentity) -> Opened | None:
        """As `resolve`, without Redis; None where it has to be asked."""
        root = self._root.fresh
        return None if root is None else self._resolved(root, tenant_id, model)

    def _resolved(self, root: Root, tenant_id: str, model: ModelIdentity) -> Opened:
        return Opened(
            session=None,
            stamp=LeaseStamp(root.epoch, 0, 0),
            salt=salt_of(root.secret, root.epoch, tenant_id, model),
            public_salt=public_salt_of(root.secret, root.epoch, model),
        )

    async def open(
        self, tenant_id: str, session_id: str, user_id: str, model: ModelIdentity = NO_MODEL, *, touch: bool = True
    ) -> Opened:
        """The session if it exists; with `touch` this counts as activity. Raises Forbidden for another user's."""
        root = await self._root.read()
        keys = TenantKeys(tenant_id, root.epoch)
        now_ms = _now_ms()
        state, gone, gone_user, *found = await self._open(
            keys=[
                keys.session(session_id),
                keys.turns(session_id),
                keys.seen(session_id),
                keys.tokens(session_id, model.tokenizer_hash, model.revision),
                keys.sessions(),
                keys.gone(session_id),
                keys.gone_user(user_id),
            ],
            args=[session_id.encode(), user_id.encode(), now_ms, self._config.session_ttl_s, int(touch)],
        )
        _refuse(state)
        return Opened(
            session=_stored(session_id, now_ms, *found) if found else None,
            stamp=LeaseStamp(root.epoch, int(gone), int(gone_user)),
            salt=salt_of(root.secret, root.epoch, tenant_id, model),
            public_salt=public_salt_of(root.secret, root.epoch, model),
        )

    async def commit(self, tenant_id: str, turn: Turn) -> Committed:
        """Append a turn, once per request ID.

        Raises Precondition when the session was erased since the lease was given, Forbidden for another user's
        session and Exhausted when the tenant has too many sessions.
        """
        root = await self._root.read()
        if turn.stamp is not None and turn.stamp.epoch != root.epoch:
            _refuse(b"gone")
        keys = TenantKeys(tenant_id, root.epoch)
        state, version, conflict, dropped = await self._commit(
            keys=[
                keys.session(turn.session_id),
                keys.turns(turn.session_id),
                keys.seen(turn.session_id),
                keys.tokens(turn.session_id, turn.model.tokenizer_hash, turn.model.revision),
                keys.sessions(),
                keys.user(turn.user_id),
                keys.gone(turn.session_id),
                keys.gone_user(turn.user_id),
            ],
            args=self._commit_args(turn),
        )
        _refuse(state)
        return Committed(version=int(version), conflict=bool(conflict), dropped_messages=int(dropped))

    def _commit_args(self, turn: Turn) -> list[bytes | int | str]:
        config = self._config
        num_head = next((i for i, message in enumerate(turn.messages) if message.role not in SYSTEM_ROLES), 0)
        head, rest = turn.messages[:num_head], turn.messages[num_head:]
        identified = turn.model.tokenizer_hash and turn.model.revision
        stores_tokens = identified and len(turn.token_ids) <= config.max_session_tokens
        return [
            turn.session_id.encode(),
            turn.user_id.encode(),
            turn.request_id.encode(),
            turn.base_version,
            "" if turn.stamp is None else turn.stamp.gone,
            "" if turn.stamp is None else turn.stamp.gone_user,
            _now_ms(),
            config.session_ttl_s,
            pack_messages(head),
            len(head),
            pack_messages(rest),
            len(rest),
            pack_tokens(turn.token_ids) if stores_tokens else b"",
            config.max_session_messages,
            config.max_session_bytes,
            config.max_sessions_per_tenant,
            MAX_SEEN,
        ]

    async def list_page(
        self, tenant_id: str, user_id: str, size: int, after: PageEnd | None
    ) -> tuple[list[SessionEntry], PageEnd | None]:
        """Living sessions of a tenant, or of one user, last active first; and where the page ended if more follow."""
        keys = TenantKeys(tenant_id, (await self._root.read()).epoch)
        oldest_ms = _now_ms() - self._config.session_ttl_s * 1000
        last: tuple[bytes | int | str, bytes] = ("", b"") if after is None else (after.score_ms, after.session_id)
        flat = await self._page(
            keys=[keys.user(user_id) if user_id else keys.sessions()], args=[size + 1, oldest_ms, *last]
        )
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
        page = pairs[:size]
        end = PageEnd(int(float(page[-1][1])), page[-1][0]) if len(pairs) > size else None
        return await self._entries(keys, [member.decode() for member, _ in page]), end

    async def _entries(self, keys: TenantKeys, session_ids: Sequence[str]) -> list[SessionEntry]:
        pipeline = self._client.pipeline(transaction=False)
        for session_id in session_ids:
            pipeline.hmget(keys.session(session_id), ["user", "messages", "tokens", "updated_ms"])
        rows = await pipeline.execute()
        return [
            SessionEntry(
                session_id=session_id,
                user_id=user.decode(),
                num_messages=int(messages),
                num_tokens=int(float(tokens)),
                updated_ms=int(updated_ms),
            )
            for session_id, (user, messages, tokens, updated_ms) in zip(session_ids, rows, strict=True)
            if user is not None
        ]

    async def forget_session(self, tenant_id: str, session_id: str) -> int:
        """Erase a session; gives 1, or 0 if there was none."""
        keys = TenantKeys(tenant_id, (await self._root.read()).epoch)
        return await self._erase(keys, session_id)

    async def forget_user(self, tenant_id: str, user_id: str) -> tuple[int, list[str], bool]:
        """Erase up to FORGET_BATCH sessions of a user; gives the number of those that existed, their IDs, and whether
        some may remain."""
        keys = TenantKeys(tenant_id, (await self._root.read()).epoch)
        pipeline = self._client.pipeline(transaction=True)
        pipeline.incr(keys.gone_user(user_id))
        pipeline.expire(keys.gone_user(user_id), self._config.session_ttl_s)
        pipeline.zrange(keys.user(user_id), 0, FORGET_BATCH - 1)
        members = (await pipeline.execute())[2]
        erased = 0
        for member in members:
            erased += await self._erase(keys, member.decode())
            await self._client.zrem(keys.user(user_id), member)
        return erased, [member.decode() for member in members], len(members) == FORGET_BATCH

    async def _erase(self, keys: TenantKeys, session_id: str) -> int:
        names = [keys.session(session_id), keys.turns(session_id), keys.seen(session_id), keys.sessions()]
        return int(
            await self._forget(
                keys=[*names, keys.gone(session_id)], args=[session_id.encode(), self._config.session_ttl_s]
            )
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _refuse(state: bytes) -> None:
    """Raise what a script's state stands for, if it is a refusal."""
    if state == b"user":
        raise Forbidden("SESSION_OF_ANOTHER_USER", "this session belongs to another user", field="session_id")
    if state == b"gone":
        raise Precondition(
            "SESSION_ERASED", "the session was erased while the turn ran, so the turn was not stored", field="lease_id"
        )
    if state == b"full":
        raise Exhausted("TOO_MANY_SESSIONS", "this tenant has too many sessions; forget some or let them expire")


def _stored(
    session_id: str, now_ms: int, fields: list[bytes], messages: bytes, tokens: bytes, ttl_ms: int
) -> StoredSession:
    user, version, created_ms, updated_ms = fields[:4]
    return StoredSession(
        session_id=session_id,
        user_id=user.decode(),
        messages=ChatMessages.FromString(messages).messages,
        token_ids=unpack_tokens(tokens),
        version=int(version),
        created_ms=int(created_ms),
        updated_ms=int(updated_ms),
        expires_ms=now_ms + int(ttl_ms),
    )
