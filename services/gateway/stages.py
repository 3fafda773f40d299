"""The twelve stages of one request: what ran, how long, what was degraded."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from services.gateway.calls import Answer
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.identity import Identity

ADMIT, ANALYZE, TOKENIZE, CACHE = (
    common_pb2.STAGE_ADMIT,
    common_pb2.STAGE_ANALYZE,
    common_pb2.STAGE_TOKENIZE,
    common_pb2.STAGE_CACHE,
)
EMBED, ATTEND, MLP, NORM, SAMPLE = (
    common_pb2.STAGE_EMBED,
    common_pb2.STAGE_ATTEND,
    common_pb2.STAGE_MLP,
    common_pb2.STAGE_NORM,
    common_pb2.STAGE_SAMPLE,
)
DETOKENIZE, VALIDATE, CORRECT = common_pb2.STAGE_DETOKENIZE, common_pb2.STAGE_VALIDATE, common_pb2.STAGE_CORRECT
ORDER: tuple[common_pb2.Stage.ValueType, ...] = (
    ADMIT,
    ANALYZE,
    TOKENIZE,
    CACHE,
    EMBED,
    ATTEND,
    MLP,
    NORM,
    SAMPLE,
    DETOKENIZE,
    VALIDATE,
    CORRECT,
)
ENGINE_STAGES = frozenset({EMBED, ATTEND, MLP, NORM, SAMPLE})

_SEVERITY = {
    common_pb2.STAGE_STATUS_UNSPECIFIED: 0,
    common_pb2.STAGE_STATUS_SKIPPED: 0,
    common_pb2.STAGE_STATUS_OK: 1,
    common_pb2.STAGE_STATUS_DEGRADED: 2,
    common_pb2.STAGE_STATUS_FAILED: 3,
}


@dataclass
class Measured:
    """What a block under `StageLog.measure` says about its work."""

    attempts: int = 1
    identity: Identity | None = None
    detail: str = ""
    """What was found or chosen, for a reader."""

    def note(self, answer: Answer[Any]) -> None:
        """Take attempts and identity from the answer that did the work."""
        self.attempts, self.identity = answer.attempts, answer.identity


@dataclass
class StageLog:
    """Collects stage reports; reports of the same stage (two choices, say) are merged."""

    identity: Identity
    publish: Callable[[common_pb2.StageReport], None] = lambda report: None
    _reports: dict[common_pb2.Stage.ValueType, common_pb2.StageReport] = field(default_factory=dict)

    @contextmanager
    def measure(self, stage: common_pb2.Stage.ValueType) -> Iterator[Measured]:
        """Time a block as `stage`; an exception leaves a FAILED report and goes on."""
        started_s = time.perf_counter()
        measured = Measured()
        status, reason = common_pb2.STAGE_STATUS_OK, ""
        try:
            yield measured
        except BaseException as error:
            status = common_pb2.STAGE_STATUS_FAILED
            reason = error.reason if isinstance(error, StagemeshError) else type(error).__name__.upper()
            raise
        finally:
            self.add(
                common_pb2.StageReport(
                    stage=stage,
                    status=status,
                    attempts=measured.attempts,
                    duration_us=int((time.perf_counter() - started_s) * 1e6),
                    instance=measured.identity.instance if measured.identity else "",
                    generation=measured.identity.generation if measured.identity else 0,
                    reason=reason,
                    detail=measured.detail,
                )
            )

    def degrade(self, stage: common_pb2.Stage.ValueType, *, fallback: str, reason: str, detail: str = "") -> None:
        """`stage` could not do its work; its declared fallback was taken."""
        self.add(
            common_pb2.StageReport(
                stage=stage,
                status=common_pb2.STAGE_STATUS_DEGRADED,
                fallback=fallback,
                reason=reason,
                detail=detail,
            )
        )

    def ledger_away(self) -> None:
        """The request runs without a ledger entry: nobody can come back for it."""
        self.degrade(ADMIT, fallback="no-ledger", reason="LEDGER_UNAVAILABLE")

    def add(self, report: common_pb2.StageReport) -> None:
        """Record one report. Times add up; the worse status wins, except that a fallback heals a failure. Fallbacks of
        one stage are all named, and their reasons."""
        known = self._reports.get(report.stage)
        if known is None:
            known = self._reports[report.stage] = common_pb2.StageReport()
            known.CopyFrom(report)
        else:
            known.duration_us += report.duration_us
            known.attempts = max(known.attempts, report.attempts)
            healed = (
                known.status == common_pb2.STAGE_STATUS_FAILED and report.status == common_pb2.STAGE_STATUS_DEGRADED
            )
            both_degraded = known.status == report.status == common_pb2.STAGE_STATUS_DEGRADED
            if healed or _SEVERITY[report.status] > _SEVERITY[known.status]:
                known.status, known.fallback, known.reason = report.status, report.fallback, report.reason
                if report.HasField("layer"):
                    known.layer = report.layer
            if report.instance:
                known.instance, known.generation = report.instance, report.generation
            if both_degraded:
                known.fallback = _joined(known.fallback, report.fallback, ", ")
                if report.reason not in (known.reason, *known.further_reasons):
                    known.further_reasons.append(report.reason)
                known.detail = _joined(known.detail, report.detail, "; ")
            else:
                known.detail = report.detail or known.detail
        self.publish(known)

    @property
    def degraded(self) -> common_pb2.StageReport | None:
        """The first stage, in order, that is degraded or failed."""
        for report in self.in_order():
            if report.status in {common_pb2.STAGE_STATUS_DEGRADED, common_pb2.STAGE_STATUS_FAILED}:
                return report
        return None

    def in_order(self) -> list[common_pb2.StageReport]:
        """All twelve reports; a stage that did not run is SKIPPED."""
        return [
            self._reports.get(stage)
            or common_pb2.StageReport(stage=stage, status=common_pb2.STAGE_STATUS_SKIPPED, attempts=0)
            for stage in ORDER
        ]


def _joined(known: str, new: str, separator: str) -> str:
    """Both, each once."""
    parts = known.split(separator) if known else []
    return known if not new or new in parts else separator.join([*parts, new])
