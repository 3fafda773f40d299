"""One request through its stages, in call order."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from services.gateway import quality
from services.gateway.config import GatewayConfig
from services.gateway.generation import Generation, Output
from services.gateway.job import Job
from services.gateway.peers import Peers
from services.gateway.prepare import Prompt, prepare
from services.gateway.running import RunningRequest
from services.gateway.stages import StageLog
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import StagemeshError, to_detail


@dataclass
class Work:
    """One run of one request: all that its final event is made from."""

    job: Job
    running: RunningRequest
    log_stages: StageLog
    deadline: Deadline
    accepted_s: float
    """When the request came in (monotonic clock)."""
    outputs: list[Output]
    prompt: Prompt | None = None
    first_delta_s: float | None = None

    def publish_delta(self, delta: gateway_pb2.Delta) -> None:
        if self.first_delta_s is None:
            self.first_delta_s = time.monotonic()
        self.running.publish(delta=delta)

    @property
    def has_delivered(self) -> bool:
        return any(output.token_ids for output in self.outputs)


@dataclass(frozen=True)
class Delivered:
    """What the caller of a resumed request has already, per choice."""

    token_ids: dict[int, list[int]] = field(default_factory=dict)
    num_chars: dict[int, int] = field(default_factory=dict)
    next_seq: int = 1


def new_outputs(job: Job, delivered: Delivered) -> list[Output]:
    return [
        Output(
            index=index,
            token_ids=list(delivered.token_ids.get(index, [])),
            num_sent_tokens=len(delivered.token_ids.get(index, [])),
            num_sent_chars=delivered.num_chars.get(index, 0),
        )
        for index in range(job.num_choices)
    ]


async def run(work: Work, peers: Peers, config: GatewayConfig) -> None:
    """Bring `work.outputs` to their end. Raises the StagemeshError that ended the request before."""
    work.prompt = await prepare(work.job, peers, config, work.log_stages, work.deadline)
    choices = [asyncio.create_task(_run_choice(work, work.prompt, output, peers, config)) for output in work.outputs]
    try:
        await asyncio.gather(*choices)
    finally:
        for choice in choices:
            choice.cancel()
        await asyncio.gather(*choices, return_exceptions=True)


async def _run_choice(work: Work, prompt: Prompt, output: Output, peers: Peers, config: GatewayConfig) -> None:
    generation = Generation(work.job, prompt, peers, config, work.log_stages, work.publish_delta)
    await generation.run(output, work.deadline)
    await quality.ensure(work.job, prompt, output, peers, config, work.log_stages, work.deadline)


def complete(work: Work) -> gateway_pb2.Final:
    """The final event of work that came to its end: COMPLETE, or DEGRADED where a stage says so."""
    degraded = work.log_stages.degraded
    final = _final(work, common_pb2.OUTCOME_DEGRADED if degraded else common_pb2.OUTCOME_COMPLETE)
    if degraded is not None:
        name = common_pb2.Stage.Name(degraded.stage).removeprefix("STAGE_").lower()
        final.error.reason = degraded.reason
        final.error.message = f"the stage {name} is degraded" + (f" ({degraded.fallback})" if degraded.fallback else "")
    return final


def ended(work: Work, outcome: common_pb2.Outcome.ValueType, error: StagemeshError) -> gateway_pb2.Final:
    """The final event of work that was ended by `error`; text that was delivered stays in it."""
    final = _final(work, outcome)
    final.error.CopyFrom(to_detail(error))
    return final


def _final(work: Work, outcome: common_pb2.Outcome.ValueType) -> gateway_pb2.Final:
    now_s = time.monotonic()
    final = gateway_pb2.Final(
        request_id=work.job.request_id,
        outcome=outcome,
        choices=[_choice(output) for output in work.outputs],
        stages=work.log_stages.in_order(),
        total_us=int((now_s - work.accepted_s) * 1e6),
        seed=work.job.request.sampling.seed,
        model=common_pb2.ModelIdentity(model=work.job.model),
    )
    if work.first_delta_s is not None:
        final.ttft_us = int((work.first_delta_s - work.accepted_s) * 1e6)
    final.usage.completion_tokens = sum(len(output.token_ids) for output in work.outputs)
    if work.prompt is not None:
        final.model.CopyFrom(work.prompt.model)
        final.cut_messages = work.prompt.cut_messages
        final.usage.prompt_tokens = len(work.prompt.token_ids)
        final.usage.session_tokens = work.prompt.session_tokens
        if finish := work.outputs[0].finish:
            final.usage.cached_tokens = finish.usage.cached_tokens
    return final


def _choice(output: Output) -> gateway_pb2.Choice:
    choice = gateway_pb2.Choice(
        index=output.index,
        text=output.text,
        finish_reason=output.finish.reason if output.finish else common_pb2.FINISH_REASON_ABORT,
        logprobs=output.logprobs,
    )
    if output.validation is not None:
        choice.validation.CopyFrom(output.validation)
    return choice
