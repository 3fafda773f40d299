"""From a request to what the engine gets: session, additions, tokens, lease; each with its declared fallback."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import Any, TypeVar

import grpc

from services.gateway import stages
from services.gateway.adapters import SEPARATOR, WantedAdapter, unknown_model
from services.gateway.calls import REFUSALS, call
from services.gateway.config import GatewayConfig
from services.gateway.gathering import Additions, gather, gather_again, may_add, tokenize_placed
from services.gateway.peers import Peers
from services.gateway.placement import Placement
from services.gateway.service_problem import service_problem
from services.gateway.session_lease import lease_of, open_session
from services.gateway.stage_policies import POLICIES
from services.gateway.stage_watch import Skips
from services.gateway.work import Prompt, Work
from stagemesh.api.cache.v1 import cache_pb2
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.errors import InvalidRequest, StagemeshError, from_rpc
from stagemesh.runtime.retry import RetryPolicy
from stagemesh.runtime.telemetry import get_logger

CHECK_RETRIES = RetryPolicy(max_attempts=1)

T = TypeVar("T")

log = get_logger(__name__)


async def prepare(work: Work, peers: Peers, config: GatewayConfig) -> Prompt:
    """Run the stages before the engine. Raises the StagemeshError that ends the request."""
    job = work.job
    asked = job.request.policy.precision_mode
    adapter = WantedAdapter(job.adapter)
    peers.engines.check_mode(job.model, asked)
    peers.engines.check_adapter(job.model, job.adapter)
    engine = await peers.engines.wait_for(job.model, asked, work.deadline, config.engine_wait_s, adapter)
    mode, model = mode_and_identity(engine, asked)
    if adapter.name:
        model = with_adapter(model, adapter, peers.engines.adapters(job.model))
    placement = Placement()
    check = _begin(_check_constraint(work, peers, config)) if job.needs_validation else _at_once(None)
    gathering = _begin(gather(work, peers, config)) if may_add(work, config) else _at_once(Additions())
    try:
        session = None
        if job.request.session_id:
            session = await open_session(work, model, mode, placement, peers, config)
        additions = await gathering
        if session is not None:
            additions = await gather_again(additions, work, peers, config)
        turn = job.request.chat.messages
        placed = additions.place(session.session.messages if session is not None else (), turn, config)
        prepared, placed = await tokenize_placed(
            placed, turn, work.log_stages, lambda chat: _tokenize(work, engine, session, chat, peers, config)
        )
        lease = await lease_of(work, model, session, prepared, peers, config)
        if lease.salt:
            peers.prefixes.prefer(job.tenant_id, prepared.token_ids, placement)
        additions.report(work.log_stages)
        await check
    finally:
        await _leave(check, gathering)
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


def _begin(coroutine: Coroutine[Any, Any, T]) -> asyncio.Future[T]:
    """Run it beside what follows."""
    return asyncio.ensure_future(coroutine)


def _at_once(value: T) -> asyncio.Future[T]:
    """What is known already: to wait for it costs no turn of the event loop, as a task would."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
    future.set_result(value)
    return future


async def _leave(*futures: asyncio.Future[Any]) -> None:
    """End those that still run; what they come to is of no interest any more."""
    for future in futures:
        future.cancel()
    if not all(future.done() and not future.cancelled() and future.exception() is None for future in futures):
        await asyncio.gather(*futures, return_exceptions=True)


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


def with_adapter(
    model: common_pb2.ModelIdentity, wanted: WantedAdapter, held: Iterable[engine_pb2.Adapter]
) -> common_pb2.ModelIdentity:
    """The identity with the newest generation that there is. Raises NotFound where it has just gone."""
    adapter = wanted.found_among(held)
    if adapter is None:
        raise unknown_model(f"{model.model}{SEPARATOR}{wanted.name}")
    identity = common_pb2.ModelIdentity(
        adapter=adapter.name, adapter_generation=adapter.generation, adapter_revision=adapter.revision
    )
    identity.MergeFrom(model)
    return identity


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
                peers.tokenizer.Prepare,
                request,
                POLICIES["tokenize"].retries,
                work.deadline,
                config.tokenizer_timeout_s,
                stages=("tokenize", "analyze"),
                watch=peers.breakers.watch("tokenize"),
                skips=Skips.SILENT if work.job.request.allow_deferral else POLICIES["tokenize"].skips,
            )
            measured.note(answer)
        except grpc.RpcError as error:
            raise _with_room(
                service_problem("tokenizer", error), work.job.request.sampling.max_tokens, engine.context_length
            ) from error
    work.log_stages.add(
        common_pb2.StageReport(
            stage=stages.ANALYZE,
            status=common_pb2.STAGE_STATUS_OK,
            attempts=1,
            duration_us=answer.response.analyze_us,
        )
    )
    if answer.response.analyze_problem:
        work.log_stages.degrade(stages.ANALYZE, fallback="unanalyzed", reason=answer.response.analyze_problem)
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


async def _check_constraint(work: Work, peers: Peers, config: GatewayConfig) -> None:
    """Refuse a constraint that cannot be enforced before anything is generated for it."""
    asked = work.job.request
    request = validator_pb2.CheckRequest(
        anchors=asked.anchors, rules=asked.rules, text_rules=asked.text_rules, tenant_id=work.job.tenant_id
    )
    if work.job.has_constraint:
        request.constraint.CopyFrom(work.job.request.constraint)
    try:
        await call(
            peers.validator.Check,
            request,
            CHECK_RETRIES,
            work.deadline,
            config.validator_timeout_s,
            watch=peers.breakers.watch("validate"),
            skips=POLICIES["validate"].skips,
        )
    except grpc.RpcError as error:
        reason: StagemeshError = from_rpc(error)
        if error.code() in REFUSALS:
            raise reason from error
        log.warning("constraint not checked", error=str(reason))  # the engine has limits of its own
