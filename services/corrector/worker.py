"""The sandboxed process that repairs and validates: `python -m services.corrector.worker MEMORY_BYTES`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from services.corrector.repair import repair
from stagemesh.validation.data import anchors_from, constraint_from
from stagemesh.validation.limits import Limits
from stagemesh.validation.sandbox_child import Handlers, serve
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import to_data
from stagemesh.validation.worker import handlers as validation_handlers


def handlers() -> Handlers:
    """Those of the validation, and `repair {text, constraint, anchors, limits}` → text, verdict, changes."""
    validators: dict[Limits, Validator] = {}

    def repaired(data: dict[str, Any]) -> dict[str, Any]:
        limits = Limits(**data["limits"])
        validator = validators.setdefault(limits, Validator(limits))
        result = repair(validator, data["text"], constraint_from(data), anchors_from(data))
        changes = [asdict(change) for change in result.changes]
        return {"text": result.text, "verdict": to_data(result.verdict), "changes": changes}

    return {**validation_handlers(), "repair": repaired}


if __name__ == "__main__":
    serve(handlers(), int(sys.argv[1]))
