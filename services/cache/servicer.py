"""CacheService: from messages to sessions and back."""

from __future__ import annotations

import time
from collections.abc import Sequence

from google.protobuf.timestamp_pb2 import Timestamp

from services.cache.config import CacheConfig
from services.cache.kv_erasure import KvErasure
from services.cache.kv_lookup import KvLookup
from services.cache.learning.expectation import Expectation
from services.cache.learning.part import Learning
from services.cache.lease import parse_lease_id
from services.cache.limits import check_id, check_name, check_turn, decode_page_token, encode_page_token, page_size
from services.cache.preferences.keys import UserKeys
from services.cache.preferences.store import PreferenceStore
from services.cache.redis_guard import RedisGuard
from services.cache.reports import Reports
from services.cache.session import Opened, StoredSession, Turn
from services.cache.session_store import SessionStore
from services.cache.usage_log import UsageLog
from services.cache.usage_store import UsageStore
from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.runtime.errors import InvalidRequest, NotFound
from stagemesh.runtime.interceptors import Context
from stagemesh.runtime.kv_directory import Holder
from stagemesh.runtime.kv_value import Horizons
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class CacheServicer(cache_pb2_grpc.CacheServiceServicer):
    """Every method raises InvalidRequest for bad IDs and Unavailable when the store is away or slow."""

    def __init__(
        self,
        store: SessionStore,
        guard: RedisGuard,
        config: CacheConfig,
        kv: KvLookup,
        erasure: KvErasure,
        log: UsageLog,
        reports: Reports,
        usage: UsageStore,
        preferences: PreferenceStore,
        expectation: Expectation,
        learning: Learning,
    ) -> None:
        self._store = store
        self._guard = guard
        self._config = config
        self._kv = kv
        self._erasure = erasure
        self._usage_log = log
        self._reports = reports
        self._usage = usage
        self._preferences = preferences
        self._expectation = expectation
        self._learning = learning
        self._lookup_s = config.redis_budget_ms / 1000
        self._open_s = config.session_budget_ms / 1000
        self._change_s = config.commit_budget_ms / 1000

    async def OpenSession(
        self, request: cache_pb2.OpenSessionRequest, context: Context
    ) -> cache_pb2.OpenSessionResponse:
        self._check_ids(request.tenant_id, request.session_id, request.user_id)
        opened = await self._guard.call(
            self._store.open(request.tenant_id, request.session_id, request.user_id, request.model), self._open_s
        )
        lease = self._lease(opened)
        tokens = opened.session.token_ids if opened.session is not None else ()
        if tokens:  # else the gateway asks again when it has tokens
            await self._add_kv(lease, request, opened, tokens)
        return cache_pb2.OpenSessionResponse(session=_session(opened.session) if opened.session else None, lease=lease)

    async def Resolve(self, request: cache_pb2.ResolveRequest, context: Context) -> cache_pb2.ResolveResponse:
        check_id(request.tenant_id, "tenant_id", self._config)
        check_id(request.session_id, "session_id", self._config, required=False)
        check_id(request.user_id, "user_id", self._config, required=False)
        opened = self._store.resolve_at_once(request.tenant_id, request.model)
        if opened is None:
            opened = await self._guard.call(self._store.resolve(request.tenant_id, request.model), self._lookup_s)
        lease = self._lease(opened)
        await self._add_kv(lease, request, opened, request.token_ids)
        return cache_pb2.ResolveResponse(lease=lease)

    async def Commit(self, request: cache_pb2.CommitRequest, context: Context) -> cache_pb2.CommitResponse:
        self._check_ids(request.tenant_id, request.session_id, request.user_id)
        check_id(request.request_id, "request_id", self._config)
        check_turn(request, self._config)
        turn = Turn(
            session_id=request.session_id,
            user_id=request.user_id,
            request_id=request.request_id,
            model=request.model,
            base_version=request.base_version,
            messages=request.messages,
            token_ids=request.token_ids,
            stamp=parse_lease_id(request.lease_id),
        )
        committed = await self._guard.call(self._store.commit(request.tenant_id, turn), self._change_s)
        if committed.conflict or committed.dropped_messages:
            log.info("session keeps no tokens", conflict=committed.conflict, dropped=committed.dropped_messages)
        self._learning.committed(request)
        return cache_pb2.CommitResponse(
            version=committed.version, conflict=committed.conflict, dropped_messages=committed.dropped_messages
        )

    async def GetSession(self, request: cache_pb2.GetSessionRequest, context: Context) -> cache_pb2.GetSessionResponse:
        self._check_ids(request.tenant_id, request.session_id)
        opened = await self._guard.call(
            self._store.open(request.tenant_id, request.session_id, "", touch=False), self._change_s
        )
        if opened.session is None:
            raise NotFound("SESSION_NOT_FOUND", "there is no such session, or it has expired", field="session_id")
        return cache_pb2.GetSessionResponse(session=_session(opened.session))

    async def ListSessions(
        self, request: cache_pb2.ListSessionsRequest, context: Context
    ) -> cache_pb2.ListSessionsResponse:
        check_id(request.tenant_id, "tenant_id", self._config)
        check_id(request.user_id, "user_id", self._config, required=False)
        after = decode_page_token(request.page_token)
        entries, end = await self._guard.call(
            self._store.list_page(request.tenant_id, request.user_id, page_size(request.page_size), after),
            self._change_s,
        )
        summaries = [
            cache_pb2.SessionSummary(
                session_id=entry.session_id,
                user_id=entry.user_id,
                num_messages=entry.num_messages,
                num_tokens=entry.num_tokens,
                updated_at=_timestamp(entry.updated_ms),
            )
            for entry in entries
        ]
        return cache_pb2.ListSessionsResponse(sessions=summaries, next_page_token=encode_page_token(end))

    async def Forget(self, request: cache_pb2.ForgetRequest, context: Context) -> cache_pb2.ForgetResponse:
        tenant_id = check_id(request.tenant_id, "tenant_id", self._config)
        match request.WhichOneof("what"):
            case "session_id":
                session_id = check_id(request.session_id, "session_id", self._config)
                erased = await self._guard.call(self._store.forget_session(tenant_id, session_id), self._change_s)
                await self._usage_log.flush()
                await self._guard.call(self._usage.forget_sessions(tenant_id, [session_id]), self._change_s)
                await self._learning.forget(tenant_id, session_id=session_id)
                await self._erasure.session(tenant_id, session_id)
            case "user_id":
                user_id = check_id(request.user_id, "user_id", self._config)
                await self._usage_log.flush()
                erased = await self._forget_user(tenant_id, user_id)
                await self._learning.forget(tenant_id, user_id=user_id)
                preferences = self._preferences.forget(UserKeys(tenant_id, user_id))
                await self._guard.call(preferences, self._change_s)
                await self._erasure.user(tenant_id, user_id)
            case _:
                raise InvalidRequest("MISSING_ID", "name the session or the user to forget", field="what")
        log.info("forgot", what=request.WhichOneof("what"), sessions=erased)
        return cache_pb2.ForgetResponse(sessions=erased)

    async def _forget_user(self, tenant_id: str, user_id: str) -> int:
        erased, more = 0, True
        while more:
            number, sessions, more = await self._guard.call(self._store.forget_user(tenant_id, user_id), self._change_s)
            await self._guard.call(self._usage.forget_sessions(tenant_id, sessions), self._change_s)
            erased += number
        return erased

    async def Release(self, request: cache_pb2.ReleaseRequest, context: Context) -> cache_pb2.ReleaseResponse:
        check_id(request.tenant_id, "tenant_id", self._config)
        check_id(request.use.request_id, "use.request_id", self._config)
        check_id(request.use.session_id, "use.session_id", self._config, required=False)
        use = cache_pb2.CacheUse()
        use.CopyFrom(request.use)
        use.at.GetCurrentTime()
        self._usage_log.add(request.tenant_id, use)
        return cache_pb2.ReleaseResponse()

    async def Explain(self, request: cache_pb2.ExplainRequest, context: Context) -> cache_pb2.ExplainResponse:
        check_name(request.request_id, "request_id")
        check_name(request.tenant_id, "tenant_id", required=False)
        await self._usage_log.flush()
        return await self._reports.explain(request.tenant_id, request.request_id)

    async def Stats(self, request: cache_pb2.StatsRequest, context: Context) -> cache_pb2.StatsResponse:
        check_name(request.tenant_id, "tenant_id", required=False)
        await self._usage_log.flush()
        return await self._reports.stats(request.tenant_id)

    async def Top(self, request: cache_pb2.TopRequest, context: Context) -> cache_pb2.TopResponse:
        check_name(request.tenant_id, "tenant_id", required=False)
        await self._usage_log.flush()
        return await self._reports.top(request.tenant_id, request.limit)

    async def _add_kv(
        self,
        lease: cache_pb2.Lease,
        request: cache_pb2.OpenSessionRequest | cache_pb2.ResolveRequest,
        opened: Opened,
        tokens: Sequence[int],
    ) -> None:
        holder = Holder(session_id=request.session_id, user_id=request.user_id)

        def worth_of(pages: Sequence[bytes]) -> Horizons:
            if not request.session_id:
                return self._expectation.of_prompt(pages, ahead=request.ahead)
            return self._expectation.of_session(
                request.tenant_id, request.session_id, opened.session, len(tokens), ahead=request.ahead
            )

        answer = await self._kv.lease(request.tenant_id, request.model, opened, tokens, holder, worth_of)
        if answer.lease is not None:
            lease.kv.CopyFrom(answer.lease)
        lease.kv_miss = answer.miss

    def _check_ids(self, tenant_id: str, session_id: str, user_id: str = "") -> None:
        check_id(tenant_id, "tenant_id", self._config)
        check_id(session_id, "session_id", self._config)
        check_id(user_id, "user_id", self._config, required=False)

    def _lease(self, opened: Opened) -> cache_pb2.Lease:
        expires_ms = time.time_ns() // 1_000_000 + self._config.lease_ttl_s * 1000
        return cache_pb2.Lease(
            lease_id=opened.stamp.new_id(),
            epoch=opened.stamp.epoch,
            expires_at=_timestamp(expires_ms),
            salt=opened.salt,
        )


def _session(session: StoredSession) -> cache_pb2.Session:
    return cache_pb2.Session(
        session_id=session.session_id,
        user_id=session.user_id,
        messages=session.messages,
        token_ids=session.token_ids,
        version=session.version,
        created_at=_timestamp(session.created_ms),
        updated_at=_timestamp(session.updated_ms),
        expires_at=_timestamp(session.expires_ms),
    )


def _timestamp(unix_ms: int) -> Timestamp:
    return Timestamp(seconds=unix_ms // 1000, nanos=unix_ms % 1000 * 1_000_000)
