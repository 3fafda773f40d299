"""One request through its stages, in call order."""

from __future__ import annotations

import asyncio
import time

from services.gateway import quality
from services.gateway.config import GatewayConfig
from services.gateway.generation import Generation
from services.gateway.peers import Peers
from services.gateway.prepare import prepare
from services.gateway.work import Output, Prompt, Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.errors import StagemeshError, to_detail


async def run(work: Work, peers: Peers, config: GatewayConfig) -> None:
    """Bring `work.outputs` to their end. Raises the StagemeshError that ended the request before."""
    work.prompt = await prepare(work, peers, config)
    choices = [asyncio.create_task(_run_choice(work, work.prompt, output, peers, config)) for output in work.outputs]
    try:
        await asyncio.gather(*choices)
    finally:
        for choice in choices:
            choice.cancel()
        await asyncio.gather(*choices, return_exceptions=True)


async def _run_choice(work: Work, prompt: Prompt, output: Output, peers: Peers, config: GatewayConfig) -> None:
    generation = Generation(work, prompt, peers, config)
    await generation.run(output)
    await quality.ensure(work, prompt, output, peers, config)


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
        final.knowledge = work.prompt.knowledge
        final.passages.extend(work.prompt.placed.passages)
        final.preferences.extend(work.prompt.placed.preferences)
        final.usage.prompt_tokens = len(work.prompt.token_ids)
        final.usage.session_tokens = work.prompt.session_tokens
        if finish := work.outputs[0].finish:
            final.usage.cached_tokens = finish.usage.cached_tokens
            final.usage.draft_tokens = finish.usage.draft_tokens
            final.usage.accepted_tokens = finish.usage.accepted_tokens
            final.usage.forwards = finish.usage.forwards
            final.usage.forced_tokens = finish.usage.forced_tokens
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
