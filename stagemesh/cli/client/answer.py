"""The end of a request: as the JSON object of `--json`, and as an exit code."""

from __future__ import annotations

from typing import Any

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.cli.exits import Exit
from stagemesh.runtime.errors import StagemeshError, known_code, to_detail

STAGES = tuple(name.removeprefix("STAGE_").lower() for name, number in common_pb2.Stage.items() if number)
"""The twelve, in the order in which a request passes them."""

ANSWERED = frozenset({common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED})

UNVALIDATED = "the validator could not be reached in time: nothing is known about the text"

EXIT_BY_OUTCOME = {
    common_pb2.OUTCOME_COMPLETE: Exit.OK,
    common_pb2.OUTCOME_DEGRADED: Exit.OK,
    common_pb2.OUTCOME_DEFERRED: Exit.DEFERRED,
    common_pb2.OUTCOME_REJECTED: Exit.REJECTED,
    common_pb2.OUTCOME_CANCELLED: Exit.CANCELLED,
    common_pb2.OUTCOME_EXPIRED: Exit.EXPIRED,
    common_pb2.OUTCOME_DEAD_LETTERED: Exit.DEAD_LETTERED,
}


def exit_of(final: gateway_pb2.Final) -> Exit:
    """0 for an answer that is complete, or degraded and marked so; 1 for one that does not validate."""
    code = EXIT_BY_OUTCOME.get(final.outcome, Exit.FAILED)
    if code is Exit.OK and not _validation(final)["valid"]:
        return Exit.FAILED
    return code


def as_json(final: gateway_pb2.Final) -> dict[str, Any]:
    """The object that `--json` prints; `error` is in it only where the outcome has a reason."""
    choice = _choice(final)
    answer: dict[str, Any] = {
        "request_id": final.request_id,
        "outcome": _name(common_pb2.Outcome.Name(final.outcome), "OUTCOME_"),
        "text": choice.text,
        "finish_reason": _name(common_pb2.FinishReason.Name(choice.finish_reason), "FINISH_REASON_"),
        "usage": {
            "prompt_tokens": final.usage.prompt_tokens,
            "completion_tokens": final.usage.completion_tokens,
            "cached_tokens": final.usage.cached_tokens,
        },
        "stages": stages(final),
        "validation": _validation(final),
        "ttft_ms": final.ttft_us / 1000,
        "total_ms": final.total_us / 1000,
        "model": final.model.model,
    }
    if final.knowledge:
        answer["knowledge"] = {"name": final.knowledge, "passages": [passage(used) for used in final.passages]}
    if final.preferences:
        answer["preferences"] = [used.text for used in final.preferences]
    return {**answer, "error": error_json(final.error)} if final.HasField("error") else answer


def passage(used: gateway_pb2.UsedPassage) -> dict[str, Any]:
    return {
        "passage_id": used.passage_id,
        "document_id": used.document_id,
        "title": used.title,
        "score": round(used.score, 3),
        "tokens": used.tokens,
        "earlier": used.earlier,
    }


def stages(final: gateway_pb2.Final) -> list[dict[str, Any]]:
    """The reports in order; a stage that reported nothing did not run."""
    reports = {report.stage: report for report in final.stages}
    return [_stage(name, reports.get(common_pb2.Stage.Value(f"STAGE_{name.upper()}"))) for name in STAGES]


def _stage(name: str, report: common_pb2.StageReport | None) -> dict[str, Any]:
    if report is None:
        return {"name": name, "status": "skipped", "duration_ms": 0.0, "attempts": 0, "fallback": None, "detail": None}
    return {
        "name": name,
        "status": _name(common_pb2.StageStatus.Name(report.status), "STAGE_STATUS_"),
        "duration_ms": report.duration_us / 1000,
        "attempts": report.attempts,
        "fallback": report.fallback or None,
        "detail": report.detail or None,
    }


def _choice(final: gateway_pb2.Final) -> gateway_pb2.Choice:
    return final.choices[0] if final.choices else gateway_pb2.Choice()


def _validation(final: gateway_pb2.Final) -> dict[str, Any]:
    """Without schema and anchors nothing was asked of the text, so an answer is valid; no answer never is."""
    choice = _choice(final)
    if not choice.HasField("validation"):
        answered = final.outcome in ANSWERED
        return {"valid": answered, "certain": answered, "errors": [], "corrections": []}
    given = choice.validation
    errors = [_issue(issue) for issue in given.issues]
    if given.unvalidated:
        errors.append(_issue(validator_pb2.Issue(rule="unvalidated", message=UNVALIDATED)))
    return {
        "valid": given.valid and not given.unvalidated,
        "certain": given.certain and not given.unvalidated,
        "errors": errors,
        "corrections": [_correction(change) for change in given.changes],
    }


def _issue(issue: validator_pb2.Issue) -> dict[str, Any]:
    return {
        "pointer": issue.pointer,
        "rule": issue.rule,
        "message": issue.message,
        "severity": _name(validator_pb2.Severity.Name(issue.severity), "SEVERITY_"),
        "suggestion": issue.suggestion or None,
    }


def _correction(change: corrector_pb2.Change) -> dict[str, Any]:
    return {
        "pointer": change.pointer,
        "from": getattr(change, "from"),
        "to": change.to,
        "reason": change.reason,
        "confidence": round(change.confidence, 4),
        "step": change.step,
        "applied": not change.withheld,
    }


def error_json(detail: common_pb2.ErrorDetail) -> dict[str, Any]:
    return {
        "code": known_code(detail.code),
        "reason": detail.reason,
        "message": detail.message,
        "field": detail.field or None,
        "retry_after_ms": detail.retry_after_ms or None,
    }


def refused(request_id: str, error: StagemeshError, outcome: common_pb2.Outcome.ValueType) -> gateway_pb2.Final:
    """The end of a request that the gateway refused with a status instead of a final event."""
    return gateway_pb2.Final(request_id=request_id, outcome=outcome, error=to_detail(error))


def _name(name: str, prefix: str) -> str | None:
    short = name.removeprefix(prefix).lower()
    return None if short == "unspecified" else short
