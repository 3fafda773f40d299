"""The chain: deterministic repair → verdict → regeneration → repair → verdict, within attempts and time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from services.corrector.config import CorrectorConfig
from services.corrector.fidelity import kept_where_sound, regeneration_changes
from services.corrector.proposals import Asked, Findings, Problem, Proposer, joined_source
from services.corrector.regenerate import Regenerator
from services.corrector.repair import Repair, problem_of
from services.corrector.repairer import Repairer
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.common.v1.common_pb2 import Usage
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.telemetry import get_logger
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.rule import Rule
from stagemesh.validation.verdict import Issue, Severity

RESERVE_S = 0.3
"""Kept back from the model, so that its answer can still be checked and sent before the caller's deadline."""

log = get_logger(__name__)


@dataclass
class Correction:
    """What came out: `repair.verdict` is about `repair.text`, and `repair.changes` lead to it."""

    repair: Repair
    num_regenerations: int = 0
    usage: Usage = field(default_factory=Usage)

    def note(self, rule: str, message: str) -> None:
        """Say something about the way in the verdict, without making it better or worse."""
        note = Issue(pointer="", rule=rule, message=message, severity=Severity.WARNING)
        verdict = replace(self.repair.verdict, issues=(*self.repair.verdict.issues, note))
        self.repair = replace(self.repair, verdict=verdict)


class Corrector:
    def __init__(
        self,
        repairer: Repairer,
        regenerator: Regenerator,
        config: CorrectorConfig,
        proposer: Proposer | None = None,
        told: Callable[[Problem, Repair], None] = lambda problem, repair: None,
    ) -> None:
        """`told`: hears what became of each text that the proposer judged."""
        self._proposer, self._told = proposer, told
        self._repairer = repairer
        self._regenerator = regenerator
        self._config = config

    async def correct(
        self,
        request: corrector_pb2.CorrectRequest,
        constraint: Constraint,
        anchors: Sequence[Anchor | Rule],
        deadline: Deadline,
    ) -> Correction:
        """The best text that can be had. Raises what `Checker` raises; an engine that fails is only noted."""
        source = source_of(request)[: self._config.max_source_bytes]
        threshold = threshold_of(request) or self._config.min_confidence
        correction = Correction(await self._repairer.repair(request.text, constraint, anchors, source, threshold))
        if self._proposer is not None and source:
            await self._judge(correction, request, constraint, anchors, source, deadline)
        allowed = min(request.max_regenerations, self._config.max_regenerations)
        for attempt in range(1, allowed + 1):
            if correction.repair.verdict.valid:
                break
            if deadline.remaining_s() < RESERVE_S + self._config.min_regeneration_ms / 1000:
                correction.note("regeneration.late", "there was no time left to ask the model again")
                break
            if not await self._attempt(correction, attempt, request, constraint, anchors, deadline):
                break
        return correction

    async def _judge(
        self,
        correction: Correction,
        request: corrector_pb2.CorrectRequest,
        constraint: Constraint,
        anchors: Sequence[Anchor | Rule],
        source: str,
        deadline: Deadline,
    ) -> None:
        """Let the content step compare the values with the source, with the help of a model."""
        assert self._proposer is not None
        problem = problem_of(request.text, correction.repair, constraint, anchors, source)
        problem = replace(problem, asked=asked_of(request))
        await self._propose(correction, problem, request, constraint, anchors, deadline)
        self._told(problem, correction.repair)

    async def _propose(
        self,
        correction: Correction,
        problem: Problem,
        request: corrector_pb2.CorrectRequest,
        constraint: Constraint,
        anchors: Sequence[Anchor | Rule],
        deadline: Deadline,
    ) -> None:
        assert self._proposer is not None
        try:
            findings = await self._proposer.propose(problem, Deadline(deadline.at_s - RESERVE_S))
        except StagemeshError as error:
            log.warning("content not judged", reason=error.reason, problem=error.message)
            correction.note("content.failed", f"no model could compare the values with the source: {error}")
            correction.repair = replace(correction.repair, certain=False)
            return
        correction.usage.forwards += findings.forwards
        if replace(findings, forwards=0) != Findings():
            threshold = threshold_of(request) or self._config.min_confidence
            correction.repair = await self._repairer.amend(correction.repair, findings, constraint, anchors, threshold)

    async def _attempt(
        self,
        correction: Correction,
        attempt: int,
        request: corrector_pb2.CorrectRequest,
        constraint: Constraint,
        anchors: Sequence[Anchor | Rule],
        deadline: Deadline,
    ) -> bool:
        """Ask the model once; gives whether asking again makes sense."""
        last = correction.repair
        try:
            within = Deadline(deadline.at_s - RESERVE_S)
            answer = await self._regenerator.regenerate(request, constraint, last, attempt, within)
        except StagemeshError as error:
            log.warning("not regenerated", reason=error.reason, problem=error.message)
            correction.note("regeneration.failed", f"the model could not be asked again: {error}")
            return False
        correction.num_regenerations += 1
        correction.usage.prompt_tokens += answer.usage.prompt_tokens
        correction.usage.completion_tokens += answer.usage.completion_tokens
        correction.usage.cached_tokens += answer.usage.cached_tokens
        if not answer.complete:
            correction.note("regeneration.truncated", "the model's new answer was cut before its end and is not used")
            return True
        renewed = await self._repairer.repair(answer.text, constraint, anchors)
        if renewed.verdict.valid:
            faithful = await self._faithful(last, renewed, constraint, anchors)
            changes = tuple(regeneration_changes(last, faithful, request.text))
            correction.repair = replace(faithful, changes=changes, certain=False)
        return True

    async def _faithful(
        self, last: Repair, renewed: Repair, constraint: Constraint, anchors: Sequence[Anchor | Rule]
    ) -> Repair:
        """The new answer, with what nobody complained about as it was before, if that is valid too."""
        text = kept_where_sound(last, renewed)
        if text is None:
            return renewed
        kept = await self._repairer.repair(text, constraint, anchors)
        return kept if kept.verdict.valid and not kept.changes else renewed


def threshold_of(request: corrector_pb2.CorrectRequest) -> float:
    """The request's threshold as it was meant: as a float of 32 bits, 0.8 is a little more."""
    return round(request.min_confidence, 6)


def source_of(request: corrector_pb2.CorrectRequest) -> str:
    """What the answer was made from, as one text: the explicit source, else all messages but the model's own."""
    if request.source_text:
        return request.source_text
    return joined_source([message.content for message in request.source.messages if message.role != "assistant"])


def asked_of(request: corrector_pb2.CorrectRequest) -> Asked:
    """Without the adapter that the caller chose for the answer: it has not learnt to judge one. A text that comes
    without a request is known by what it says."""
    base = common_pb2.ModelIdentity()
    base.CopyFrom(request.model)
    base.adapter, base.adapter_generation, base.adapter_revision = "", 0, ""
    content = f"{request.text}\0{request.source_text}".encode()
    request_id = request.request_id or hashlib.sha256(content).hexdigest()
    return Asked(request_id=request_id, tenant_id=request.tenant_id, model=base)
