"""After generation: does the text hold, and if not, can it be made to? Both stages have a fallback that says so."""

from __future__ import annotations

from collections.abc import Iterator

import grpc

from services.gateway import stages
from services.gateway.calls import call
from services.gateway.config import GatewayConfig
from services.gateway.generation import choice_seed, sequence_id
from services.gateway.job import Job
from services.gateway.peers import Peers
from services.gateway.service_problem import service_problem
from services.gateway.stage_policies import POLICIES
from services.gateway.stages import StageLog
from services.gateway.work import Output, Prompt, Work
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.runtime.telemetry import get_logger

SURE = 0.8
"""Confidence from which on the corrector calls a change certain."""

log = get_logger(__name__)


async def ensure(work: Work, prompt: Prompt, output: Output, peers: Peers, config: GatewayConfig) -> None:
    """Set `output.validation`, and `output.text` where a correction made it right."""
    if not work.job.needs_validation:
        return
    verdict = await _validate(work, output.text, peers, config)
    if verdict is None:
        output.validation = gateway_pb2.Validation(valid=False, unvalidated=True)
        return
    is_open = not verdict.valid or _num_unmet_formats(verdict) > 0
    output.validation = gateway_pb2.Validation(valid=verdict.valid, issues=verdict.issues, certain=not is_open)
    if output.finish is not None and output.finish.reason == common_pb2.FINISH_REASON_LENGTH:
        _mark_truncated(output.validation, work.log_stages)
        return
    if not is_open:
        return
    corrected = await _correct(work, prompt, output, peers, config, is_valid=verdict.valid)
    if corrected is None:
        return
    if is_better(corrected, verdict):
        output.validation = gateway_pb2.Validation(
            valid=True,
            issues=corrected.verdict.issues,
            changes=corrected.changes,
            certain=corrected.certain,
        )
        output.engine_text = output.engine_text and corrected.text == output.text
        output.text = corrected.text
        return
    # The text stays what the model said, with its own verdict, and why it could not be mended.
    said = {(issue.pointer, issue.rule) for issue in verdict.issues}
    output.validation.issues.extend(
        issue
        for issue in corrected.verdict.issues
        if issue.severity == validator_pb2.SEVERITY_WARNING and (issue.pointer, issue.rule) not in said
    )
    output.validation.changes.extend(_suggested(corrected))
    if not verdict.valid:
        work.log_stages.degrade(stages.CORRECT, fallback="verdict", reason="NOT_CORRECTED")


def is_better(corrected: corrector_pb2.CorrectResponse, verdict: validator_pb2.Verdict) -> bool:
    """Whether a corrected text takes the place of one with that verdict: it is valid, which that was not, or meets more
    formats."""
    if not corrected.valid:
        return False
    return not verdict.valid or _num_unmet_formats(corrected.verdict) < _num_unmet_formats(verdict)


def _num_unmet_formats(verdict: validator_pb2.Verdict) -> int:
    return sum(issue.rule == "format" and issue.severity == validator_pb2.SEVERITY_WARNING for issue in verdict.issues)


def _suggested(corrected: corrector_pb2.CorrectResponse) -> Iterator[corrector_pb2.Change]:
    """The changes of a correction that is not used, as what they are then: suggestions."""
    for change in corrected.changes:
        change.withheld = True
        yield change


def _mark_truncated(validation: gateway_pb2.Validation, log_stages: StageLog) -> None:
    """A cut answer is no bad answer, and is not corrected; the engine may have closed it validly in its last tokens."""
    validation.certain = False
    validation.issues.add(
        rule="truncated",
        message="the answer reached max_tokens and may lack something; allow more tokens",
        severity=validator_pb2.SEVERITY_WARNING if validation.valid else validator_pb2.SEVERITY_ERROR,
    )
    if not validation.valid:
        log_stages.degrade(stages.VALIDATE, fallback="truncated", reason="TRUNCATED")


async def _validate(work: Work, text: str, peers: Peers, config: GatewayConfig) -> validator_pb2.Verdict | None:
    asked = work.job.request
    request = validator_pb2.ValidateRequest(
        text=text,
        anchors=asked.anchors,
        rules=asked.rules,
        text_rules=asked.text_rules,
        tenant_id=work.job.tenant_id,
    )
    if work.job.has_constraint:
        request.constraint.CopyFrom(work.job.request.constraint)
    try:
        with work.log_stages.measure(stages.VALIDATE) as measured:
            answer = await call(
                peers.validator.Validate,
                request,
                POLICIES["validate"].retries,
                work.deadline,
                config.validator_timeout_s,
                stages=("validate",),
                watch=peers.breakers.watch("validate"),
                skips=POLICIES["validate"].skips,
            )
            measured.note(answer)
            return answer.response.verdict
    except grpc.RpcError as error:
        reason = service_problem("validator", error)
        log.warning("answer not validated", error=str(reason))
        work.log_stages.degrade(stages.VALIDATE, fallback=POLICIES["validate"].fallback, reason=reason.reason)
        return None


async def _correct(
    work: Work, prompt: Prompt, output: Output, peers: Peers, config: GatewayConfig, *, is_valid: bool
) -> corrector_pb2.CorrectResponse | None:
    """What the corrector makes of the text. One that is valid is neither generated anew nor compared with the messages,
    and gets sure changes only."""
    job = work.job
    asked_confidence = job.request.min_confidence
    request = corrector_pb2.CorrectRequest(
        request_id=sequence_id(job, output.index),
        tenant_id=job.tenant_id,
        text=output.text,
        anchors=job.request.anchors,
        rules=job.request.rules,
        text_rules=job.request.text_rules,
        source=None if is_valid else _source(job, prompt),
        source_text=job.request.source,
        min_confidence=max(asked_confidence, SURE) if is_valid else asked_confidence,
        max_regenerations=0 if is_valid else config.max_regenerations,
        model=prompt.model,
        seed=choice_seed(job.request.sampling.seed, output.index),
        max_tokens=job.request.sampling.max_tokens or job.route.max_tokens,
    )
    if job.has_constraint:
        request.constraint.CopyFrom(job.request.constraint)
    try:
        with work.log_stages.measure(stages.CORRECT) as measured:
            answer = await call(
                peers.corrector.Correct,
                request,
                POLICIES["correct"].retries,
                work.deadline,
                config.corrector_timeout_s,
                stages=("correct",),
                watch=peers.breakers.watch("correct"),
                skips=POLICIES["correct"].skips,
            )
            measured.note(answer)
            output.correction = (request, answer.response)
            return answer.response
    except grpc.RpcError as error:
        reason = service_problem("corrector", error)
        log.warning("answer not corrected", error=str(reason))
        work.log_stages.degrade(stages.CORRECT, fallback=POLICIES["correct"].fallback, reason=reason.reason)
        return None


def _source(job: Job, prompt: Prompt) -> common_pb2.ChatMessages:
    """What the answer was made from, passages included."""
    if job.request.WhichOneof("input") == "chat":
        return common_pb2.ChatMessages(messages=prompt.placed.messages)
    return common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content=job.request.prompt)])
