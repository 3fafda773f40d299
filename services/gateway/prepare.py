"""From messages to tokens: session, template, encoding, cache lease; each with its declared fallback."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc

from services.gateway import stages
from services.gateway.calls import call
from services.gateway.config import GatewayConfig
from services.gateway.gathering import gather, tokenize_placed
from services.gateway.peers import Peers
from services.gateway.placement import Placement, choose, describe
from services.gateway.stages import StageLog
from services.gateway.work import Prompt, Work
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.channel import call_metadata
from stagemesh.runtime.errors import InvalidRequest, StagemeshError, from_rpc
from stagemesh.runtime.retry import RetryPolicy
from stagemesh.runtime.telemetry import get_logger

TOKENIZER_RETRIES = RetryPolicy(max_attempts=20, first_backoff_s=0.1, max_backoff_s=1.5)
"""About 12 s in all: a lone tokenizer that restarts is back by then."""
CACHE_RETRIES = RetryPolicy(max_attempts=2, first_backoff_s=0.01)

REFUSALS = frozenset(
    {
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.FAILED_PRECONDITION,
        grpc.StatusCode.PERMISSION_DENIED,
    }
)
"""What a service says of the request, not of itself."""

log = get_logger(__name__)


async def prepare(work: Work, peers: Peers, config: GatewayConfig) -> Prompt:
    """Run the stages before the engine. Raises the StagemeshError that ends the request."""
    job = work.job
    asked = job.request.policy.precision_mode
    peers.engines.check_mode(job.model, asked)
    engine = await peers.engines.wait_for(job.model, asked, work.deadline, config.engine_wait_s)
    mode, model = mode_and_identity(engine, asked)
    placement = Placement()
    check = asyncio.create_task(_check_constraint(work, peers, config))
    gathering = asyncio.create_task(gather(work, peers, config))
    try:
        session = None
        if job.request.session_id:
            session = await _open_session(work, model, mode, placement, peers, config)
        additions = await gathering
        turn = job.request.chat.messages
        placed = additions.place(session.session.messages if session is not None else (), turn, config)
        prepared, placed = await tokenize_placed(
            placed, turn, work.log_stages, lambda chat: _tokenize(work, engine, session, chat, peers, config)
        )
        lease = await _lease(work, model, session, prepared, peers, config)
        additions.report(work.log_stages)
        await check
    finally:
        check.cancel()
        gathering.cancel()
        await asyncio.gather(check, gathering, return_exceptions=True)
    return Prompt(
        token_ids=list(prepared.token_ids),
        model=model,
        mode=mode,
        context_length=engine.context_length,
        session_tokens=prepared.session_tokens,
        cut_messages=prepared.cut_messages,
        lease=lease,
        session_version=session.session.version if session is not None else 0,
        session_known=session is not None,
        placement=placement,
        knowledge=additions.knowledge,
        placed=placed,
    )


def mode_and_identity(
    engine: engine_pb2.DescribeResponse, asked: common_pb2.PrecisionMode.ValueType
) -> tuple[common_pb2.PrecisionMode.ValueType, common_pb2.ModelIdentity]:
    """The mode that the request runs in, wherever it continues, and the identity by which its KV is known."""
    for held in engine.modes:
        if not asked or held.mode == asked:  # the default is first
            model = common_pb2.ModelIdentity()
            model.CopyFrom(engine.model)
            model.precision = held.precision
            return held.mode, model
    return asked, engine.model


async def _tokenize(
    work: Work,
    engine: engine_pb2.DescribeResponse,
    session: cache_pb2.OpenSessionResponse | None,
    chat: Sequence[common_pb2.ChatMessage],
    peers: Peers,
    config: GatewayConfig,
) -> tokenizer_pb2.PrepareResponse:
    room = engine.context_length - max(1, work.job.request.sampling.max_tokens)
    if room < 1:
        raise InvalidRequest(
            "INVALID_SAMPLING",
            f"max_tokens leaves no room for the prompt: the model's context holds {engine.context_length:,} tokens",
            field="sampling.max_tokens",
        )
    request = _prepare_request(work, room, session, chat)
    with work.log_stages.measure(stages.TOKENIZE) as measured:
        try:
            answer = await call(
                peers.tokenizer.Prepare, request, TOKENIZER_RETRIES, work.deadline, config.tokenizer_timeout_s
            )
            measured.note(answer)
        except grpc.RpcError as error:
            raise _with_room(from_rpc(error), work.job.request.sampling.max_tokens, engine.context_length) from error
    work.log_stages.add(
        common_pb2.StageReport(
            stage=stages.ANALYZE,
            status=common_pb2.STAGE_STATUS_OK,
            attempts=1,
            duration_us=answer.response.analyze_us,
        )
    )
    return answer.response


def _prepare_request(
    work: Work, room: int, session: cache_pb2.OpenSessionResponse | None, chat: Sequence[common_pb2.ChatMessage]
) -> tokenizer_pb2.PrepareRequest:
    request = tokenizer_pb2.PrepareRequest(
        model=work.job.model,
        max_prompt_tokens=room,
        overflow=work.job.request.overflow or tokenizer_pb2.OVERFLOW_POLICY_REJECT,
    )
    if work.job.request.WhichOneof("input") == "chat":
        request.chat.messages.extend(chat)
    else:
        request.prompt = work.job.request.prompt
    if session is not None and session.HasField("session"):
        request.history.messages.extend(session.session.messages)
        request.history.token_ids.extend(session.session.token_ids)
    return request


def _with_room(error: StagemeshError, max_tokens: int, context_length: int) -> StagemeshError:
    """A prompt may be too long only because of what `max_tokens` keeps free; then the message says so."""
    if error.reason != "PROMPT_TOO_LONG" or not max_tokens:
        return error
    message = f"{error.message}; max_tokens keeps {max_tokens:,} of the context's {context_length:,} tokens free"
    return InvalidRequest(error.reason, message, field=error.field)


async def _open_session(
    work: Work,
    model: common_pb2.ModelIdentity,
    mode: common_pb2.PrecisionMode.ValueType,
    placement: Placement,
    peers: Peers,
    config: GatewayConfig,
) -> cache_pb2.OpenSessionResponse | None:
    """The session; its engine is chosen here, and told which stored pages will be wanted."""
    request = cache_pb2.OpenSessionRequest(
        tenant_id=work.job.tenant_id,
        session_id=work.job.request.session_id,
        user_id=work.job.request.user_id,
        model=model,
    )
    try:
        with work.log_stages.measure(stages.CACHE) as measured:
            answer = await call(
                peers.cache.OpenSession, request, CACHE_RETRIES, work.deadline, config.session_timeout_s
            )
            measured.note(answer)
            measured.detail = _place(work, model, mode, answer.response, placement, peers)
            return answer.response
    except grpc.RpcError as error:
        _go_cold(error, work.log_stages)
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
    links = peers.engines.serving(work.job.model, mode)
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


async def _lease(
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
    )
    try:
        with work.log_stages.measure(stages.CACHE) as measured:
            answer = await call(peers.cache.Resolve, request, CACHE_RETRIES, work.deadline, config.cache_timeout_s)
            measured.note(answer)
            if not work.job.request.session_id:
                measured.detail = f"{answer.response.lease.kv.stored_tokens:,} tokens stored"
            return answer.response.lease
    except grpc.RpcError as error:
        _go_cold(error, work.log_stages)
        return cache_pb2.Lease()


def _go_cold(error: grpc.RpcError, log_stages: StageLog) -> None:
    """The cache's fallback: without it a request runs cold, and says so. A request that it refuses is refused."""
    reason = from_rpc(error)
    if error.code() in REFUSALS:
        raise reason from error
    log.warning("cache away", error=str(reason))
    log_stages.degrade(stages.CACHE, fallback="cold", reason=reason.reason)


async def _check_constraint(work: Work, peers: Peers, config: GatewayConfig) -> None:
    """Refuse a constraint that cannot be enforced before anything is generated for it."""
    if not work.job.needs_validation:
        return
    request = validator_pb2.CheckRequest(anchors=work.job.request.anchors)
    if work.job.has_constraint:
        request.constraint.CopyFrom(work.job.request.constraint)
    try:
        await peers.validator.Check(
            request, timeout=work.deadline.budget_s(config.validator_timeout_s), metadata=call_metadata()
        )
    except grpc.RpcError as error:
        reason: StagemeshError = from_rpc(error)
        if error.code() in REFUSALS:
            raise reason from error
        log.warning("constraint not checked", error=str(reason))  # the engine has limits of its own
