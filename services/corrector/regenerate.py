"""Ask the engine for another answer, telling it what was wrong with the last one."""

from __future__ import annotations

from dataclasses import dataclass

from services.corrector.config import CorrectorConfig
from services.corrector.engine_client import EngineClient, Generated
from services.corrector.prompt import regeneration_messages
from services.corrector.renderer import RendererSet
from services.corrector.repair import Repair
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.validation.constraint import Constraint

LATER_TEMPERATURE = 0.7
"""From the second regeneration on; the first is greedy."""


@dataclass(frozen=True, kw_only=True)
class Regenerated:
    text: str
    complete: bool
    """False when the answer was cut at its token limit or ended otherwise than by its own stop."""
    usage: common_pb2.Usage


class Regenerator:
    def __init__(self, renderers: RendererSet, engines: EngineClient, config: CorrectorConfig) -> None:
        self._renderers = renderers
        self._engines = engines
        self._config = config

    async def regenerate(
        self,
        request: corrector_pb2.CorrectRequest,
        constraint: Constraint,
        last: Repair,
        attempt: int,
        deadline: Deadline,
    ) -> Regenerated:
        """Attempt number `attempt`, from 1. Raises StagemeshError: the engine's, or why it cannot be asked."""
        renderer = await self._renderers.find(request.model)
        messages = regeneration_messages(
            request.source.messages,
            last.text,
            last.verdict.issues,
            constraint,
            max_issues=self._config.max_prompt_issues,
            max_answer_chars=self._config.max_prompt_answer_chars,
        )
        submit = self._submit(request, renderer.encode(messages), attempt, deadline)
        generated: Generated = await self._engines.generate(submit, deadline)
        return Regenerated(
            text=renderer.decode(generated.token_ids),
            complete=generated.reason == common_pb2.FINISH_REASON_STOP,
            usage=generated.usage,
        )

    def _submit(
        self, request: corrector_pb2.CorrectRequest, token_ids: list[int], attempt: int, deadline: Deadline
    ) -> engine_pb2.Submit:
        submit = engine_pb2.Submit(
            sequence_id=f"{request.request_id}/c{attempt}",
            tenant_id=request.tenant_id,
            token_ids=token_ids,
            model=request.model,
            sampling=common_pb2.SamplingParams(
                temperature=0.0 if attempt == 1 else LATER_TEMPERATURE,
                seed=(request.seed + attempt) % 2**64,
                max_tokens=request.max_tokens or self._config.max_new_tokens,
            ),
            deadline_unix_us=deadline.unix_us(),
        )
        if request.constraint.WhichOneof("kind"):
            submit.constraint.CopyFrom(request.constraint)
        return submit
