"""What the cache service says before the engine works: the stored session, and a lease on pages; and who is to work."""

from __future__ import annotations

import grpc

from services.gateway import stages
from services.gateway.adapters import WantedAdapter
from services.gateway.cache_problem import cache_problem
from services.gateway.calls import REFUSALS, call
from services.gateway.config import GatewayConfig
from services.gateway.peers import Peers
from services.gateway.placement import Placement, choose, describe
from services.gateway.stage_policies import POLICIES
from services.gateway.stages import StageLog
from services.gateway.work import Work
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import DeadlineExceeded
from stagemesh.runtime.retry import RetryPolicy
from stagemesh.runtime.telemetry import get_logger

SESSION_RETRIES = RetryPolicy(max_attempts=1_000, first_backoff_s=0.02, max_backoff_s=0.5, max_faults=2)
"""As often as `gateway.session_wait_s` allows."""
SESSION_SHARE = 0.5
"""Of what a request has left, for waiting for its conversation: the answer needs the rest."""

log = get_logger(__name__)


async def open_session(
    work: Work,
    model: common_pb2.ModelIdentity,
    mode: common_pb2.PrecisionMode.ValueType,
    placement: Placement,
    peers: Peers,
    config: GatewayConfig,
) -> cache_pb2.OpenSessionResponse | None:
    """The session; its engine is chosen here, and told which stored pages will be wanted.

    A cache service that is away is waited for; None, marked, where it stays away. Raises what it refuses.
    """
    request = cache_pb2.OpenSessionRequest(
        tenant_id=work.job.tenant_id,
        session_id=work.job.request.session_id,
        user_id=work.job.request.user_id,
        model=model,
        ahead=work.is_ahead,
    )
    wait = Deadline.after(min(config.session_wait_s, work.deadline.budget_s() * SESSION_SHARE))
    try:
        with work.log_stages.measure(stages.CACHE) as measured:
            answer = await call(
                peers.cache.OpenSession,
                request,
                SESSION_RETRIES,
                wait,
                config.session_timeout_s,
                stages=("cache",),
                watch=peers.breakers.watch("cache"),
            )
            measured.note(answer)
            measured.detail = _place(work, model, mode, answer.response, placement, peers)
            return answer.response
    except (grpc.RpcError, DeadlineExceeded) as error:
        detail = "the conversation is missing, and this turn was not stored"
        _go_without("without-conversation", detail, error, work.log_stages)
        return None


def _place(
    work: Work,
    model: common_pb2.ModelIdentity,
    mode: common_pb2.PrecisionMode.ValueType,
    opened: cache_pb2.OpenSessionResponse,
    placement: Placement,
    peers: Peers,
) -> str:
    """Choose the session's engine, and have it fetch what is stored. Gives the choice for a reader."""
    last = peers.sessions.last(work.job.tenant_id, work.job.request.session_id)
    links = peers.engines.serving(work.job.model, mode, WantedAdapter.of(model))
    if not links:
        return ""
    link = choose(links, last)
    placement.preferred = link.address
    kv = opened.lease.kv
    if kv.stored_tokens:
        prefetch = engine_pb2.Prefetch(
            tenant_id=work.job.tenant_id,
            token_ids=opened.session.token_ids[: kv.stored_tokens],
            model=model,
            cache_salt=opened.lease.salt,
            kv=kv,
        )
        link.prefetch(prefetch)
    return f"{kv.stored_tokens:,} tokens stored; {describe(link, last)}"


async def lease_of(
    work: Work,
    model: common_pb2.ModelIdentity,
    session: cache_pb2.OpenSessionResponse | None,
    prepared: tokenizer_pb2.PrepareResponse,
    peers: Peers,
    config: GatewayConfig,
) -> cache_pb2.Lease:
    """The session's lease, or a new one. Where the session's tokens were not known before, they are looked up now; a
    lookup that failed is not repeated."""
    if not work.job.request.session_id:
        return await _resolve(work, model, prepared, peers, config)
    if session is None:
        return cache_pb2.Lease()
    if not session.lease.HasField("kv") and not session.lease.kv_miss:
        found = await _resolve(work, model, prepared, peers, config)
        if found.HasField("kv"):
            session.lease.kv.CopyFrom(found.kv)
        session.lease.kv_miss = found.kv_miss
    return session.lease


async def _resolve(
    work: Work,
    model: common_pb2.ModelIdentity,
    prepared: tokenizer_pb2.PrepareResponse,
    peers: Peers,
    config: GatewayConfig,
) -> cache_pb2.Lease:
    request = cache_pb2.ResolveRequest(
        tenant_id=work.job.tenant_id,
        model=model,
        token_ids=prepared.token_ids,
        session_id=work.job.request.session_id,
        user_id=work.job.request.user_id,
        ahead=work.is_ahead,
    )
    try:
        with work.log_stages.measure(stages.CACHE) as measured:
            answer = await call(
                peers.cache.Resolve,
                request,
                POLICIES["cache"].retries,
                work.deadline,
                config.cache_timeout_s,
                stages=("cache",),
                watch=peers.breakers.watch("cache"),
                skips=POLICIES["cache"].skips,
            )
            measured.note(answer)
            if not work.job.request.session_id:
                measured.detail = f"{answer.response.lease.kv.stored_tokens:,} tokens stored"
            return answer.response.lease
    except grpc.RpcError as error:
        _go_without(POLICIES["cache"].fallback, "", error, work.log_stages)
        return cache_pb2.Lease()


def _go_without(fallback: str, detail: str, error: grpc.RpcError | DeadlineExceeded, log_stages: StageLog) -> None:
    """The cache's fallbacks: a request goes on, and says without what. One that the cache refuses is refused."""
    reason = cache_problem(error)
    if reason.code in REFUSALS:
        raise reason from error
    log.warning("cache away", fallback=fallback, error=str(reason))
    log_stages.degrade(stages.CACHE, fallback=fallback, reason=reason.reason, detail=detail)
