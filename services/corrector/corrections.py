"""From a repaired text to the message of the API."""

from __future__ import annotations

from services.corrector.repair import Repair
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.validation.messages import verdict_message


def response_of(repair: Repair) -> corrector_pb2.CorrectResponse:
    return corrector_pb2.CorrectResponse(
        text=repair.text,
        value=repair.verdict.value,
        valid=repair.verdict.valid,
        certain=repair.certain,
        changes=[
            # `from` is a keyword in Python, so it cannot be named in the call.
            corrector_pb2.Change(
                **{"from": change.before},
                pointer=change.pointer,
                to=change.after,
                reason=change.reason,
                confidence=change.confidence,
                step=change.step,
                withheld=not change.applied,
            )
            for change in repair.changes
        ],
        verdict=verdict_message(repair.verdict),
    )
