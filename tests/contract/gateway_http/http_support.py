"""A gateway core that plays scripts: real events, no services behind it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import uuid_utils

from services.gateway.config import GatewayConfig
from services.gateway.core import AdapterInfo
from services.gateway.job import make_job
from services.gateway.rates.rate import RateState
from services.gateway.running import RunningRequest
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Forbidden, NotFound, StagemeshError, Unauthenticated, to_detail
from stagemesh.runtime.mesh_config import DEFAULT_MODEL, MeshConfig

MESH = MeshConfig(aliases={"gpt-4o-mini": DEFAULT_MODEL})
WORDS = ("Paris", " is", " the", " capital", ".")

Script = Callable[[gateway_pb2.InferenceRequest, RunningRequest], Awaitable[None]]


@dataclass(frozen=True)
class Model:
    name: str = DEFAULT_MODEL
    aliases: tuple[str, ...] = ("gpt-4o-mini",)
    created: int = 1_700_000_000
    context_length: int = 2_048


def logprob(token: str, top: int) -> gateway_pb2.Logprob:
    return gateway_pb2.Logprob(
        token_id=7,
        token=token,
        logprob=-0.5,
        top=[gateway_pb2.TopLogprob(token_id=i, token=f"{token}{i}", logprob=-0.5 - i) for i in range(top)],
    )


def final_of(
    request: gateway_pb2.InferenceRequest,
    running: RunningRequest,
    *,
    text: str = "".join(WORDS),
    outcome: common_pb2.Outcome.ValueType = common_pb2.OUTCOME_COMPLETE,
    error: StagemeshError | None = None,
) -> gateway_pb2.Final:
    final = gateway_pb2.Final(
        request_id=running.request_id,
        outcome=outcome,
        usage=common_pb2.Usage(prompt_tokens=11, completion_tokens=5 * (request.sampling.n or 1), cached_tokens=3),
        stages=[
            common_pb2.StageReport(stage=stage, status=common_pb2.STAGE_STATUS_OK, attempts=1, duration_us=1500)
            for stage in range(1, 13)
        ],
        model=common_pb2.ModelIdentity(model=DEFAULT_MODEL, revision="r1"),
        ttft_us=12_000,
        total_us=34_000,
        seed=42,
    )
    for index in range(request.sampling.n or 1):
        choice = final.choices.add(index=index, text=text, finish_reason=common_pb2.FINISH_REASON_STOP)
        if request.sampling.HasField("logprobs"):
            choice.logprobs.extend(logprob(word, request.sampling.logprobs) for word in WORDS)
        if request.anchors or request.constraint.WhichOneof("kind"):
            choice.validation.valid = True
    if error is not None:
        final.error.CopyFrom(to_detail(error))
    return final


async def answer(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
    """Five words to every choice, then the final event."""
    running.publish(stage=common_pb2.StageReport(stage=common_pb2.STAGE_ADMIT, status=common_pb2.STAGE_STATUS_OK))
    for position, word in enumerate(WORDS):
        for index in range(request.sampling.n or 1):
            delta = gateway_pb2.Delta(index=index, text=word, token_ids=[7], first_index=position)
            if request.sampling.HasField("logprobs"):
                delta.logprobs.append(logprob(word, request.sampling.logprobs))
            running.publish(delta=delta)
            await asyncio.sleep(0)
    running.publish(final=final_of(request, running))


def failing(
    error: StagemeshError,
    *,
    outcome: common_pb2.Outcome.ValueType = common_pb2.OUTCOME_REJECTED,
    after_words: int = 0,
) -> Script:
    async def script(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
        for word in WORDS[:after_words]:
            running.publish(delta=gateway_pb2.Delta(text=word))
        running.publish(final=final_of(request, running, text="", outcome=outcome, error=error))

    return script


async def never(request: gateway_pb2.InferenceRequest, running: RunningRequest) -> None:
    """One word, then silence until it is cancelled."""
    running.publish(delta=gateway_pb2.Delta(text=WORDS[0]))
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        running.publish(final=final_of(request, running, text=WORDS[0], outcome=common_pb2.OUTCOME_CANCELLED))


@dataclass
class FakeGateway:
    config: GatewayConfig
    script: Script = answer
    refuse: StagemeshError | Exception | None = None
    problems: dict[str, str] = field(default_factory=dict)
    submitted: list[gateway_pb2.InferenceRequest] = field(default_factory=list)
    deadlines: list[Deadline] = field(default_factory=list)
    requests: dict[str, RunningRequest] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def reset(self) -> None:
        self.script, self.refuse, self.problems = answer, None, {}
        self.submitted.clear()
        self.deadlines.clear()
        self.requests.clear()

    async def authenticate(self, api_key: str | None, tenant_header: str | None) -> Tenant:
        if api_key != "dev":
            raise Unauthenticated("API_KEY_INVALID", "this API key is not known")
        if tenant_header not in (None, "dev"):
            raise Forbidden("TENANT_MISMATCH", "x-tenant-id is not the tenant of this API key", field="x-tenant-id")
        return Tenant("dev")

    def rate_state(self, tenant: Tenant) -> RateState:
        return RateState(limit=500, remaining=499, reset_s=0.02)

    async def submit(self, tenant: Tenant, request: gateway_pb2.InferenceRequest, deadline: Deadline) -> RunningRequest:
        if self.refuse is not None:
            raise self.refuse
        make_job(tenant.tenant_id, request, MESH, self.config)  # the real checks
        request_id = request.request_id or str(uuid_utils.uuid7())
        if request_id in self.requests:
            return self.requests[request_id]
        running = RunningRequest(tenant.tenant_id, request_id)
        running.keep = bool(request.request_id) or request.resumable or request.allow_deferral
        self.submitted.append(request)
        self.deadlines.append(deadline)
        self.requests[request_id] = running
        running.publish(queued=gateway_pb2.Queued(request_id=request_id))
        task = asyncio.create_task(self.script(request, running))
        running.attach_task(task)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return running

    async def watch(self, tenant: Tenant, request_id: str, after_seq: int = 0) -> AsyncGenerator[gateway_pb2.Event]:
        async with aclosing(self._find(request_id).events(after_seq)) as events:
            async for event in events:
                yield event

    async def lookup(self, tenant: Tenant, request_id: str) -> gateway_pb2.Final | None:
        running = self._find(request_id)
        return await running.final() if running.done else None

    async def cancel(self, tenant: Tenant, request_id: str) -> common_pb2.Outcome.ValueType:
        running = self._find(request_id)
        running.cancel()
        return (await running.final()).outcome

    def list_models(self) -> list[Model]:
        return [Model()]

    async def list_adapters(self, tenant: Tenant) -> list[AdapterInfo]:
        return []

    async def readiness(self) -> dict[str, str]:
        return self.problems

    def _find(self, request_id: str) -> RunningRequest:
        if request_id not in self.requests:
            raise NotFound("REQUEST_NOT_FOUND", f"there is no request {request_id}", field="request_id")
        return self.requests[request_id]


async def eventually(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, "the condition did not become true in time"
        await asyncio.sleep(0.005)


async def sse_data(lines: AsyncIterator[str]) -> list[str]:
    """The data of the frames of a stream."""
    return [line.removeprefix("data: ") async for line in lines if line.startswith("data: ")]
