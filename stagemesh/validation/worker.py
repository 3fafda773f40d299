"""The sandboxed process that validates: `python -m stagemesh.validation.worker MEMORY_BYTES`."""

from __future__ import annotations

import sys
from typing import Any

from stagemesh.validation.data import anchors_from, constraint_from
from stagemesh.validation.limits import Limits
from stagemesh.validation.sandbox_child import Handlers, serve
from stagemesh.validation.validate import Validator
from stagemesh.validation.verdict import to_data


def handlers() -> Handlers:
    """`validate {text, brief, constraint, anchors, limits}` gives a verdict; `check` takes the last three."""
    validators: dict[Limits, Validator] = {}

    def validator(data: dict[str, Any]) -> Validator:
        limits = Limits(**data["limits"])
        if limits not in validators:
            validators.clear()
            validators[limits] = Validator(limits)
        return validators[limits]

    def validate(data: dict[str, Any]) -> dict[str, Any]:
        verdict = validator(data).validate(data["text"], constraint_from(data), anchors_from(data), brief=data["brief"])
        return to_data(verdict)

    def check(data: dict[str, Any]) -> None:
        validator(data).check(constraint_from(data), anchors_from(data))

    return {"validate": validate, "check": check}


if __name__ == "__main__":
    serve(handlers(), int(sys.argv[1]))
