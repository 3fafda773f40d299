"""Whether a whole value satisfies a part of a schema."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

from services.corrector.form.shape import Shape
from services.corrector.form.values import Several, Word


class Fitting:
    """Validators of parts of one schema, made when they are needed."""

    def __init__(self, root: Any) -> None:
        definitions = {key: root[key] for key in ("$defs", "definitions") if isinstance(root, dict) and key in root}
        self._definitions = definitions

    def fits(self, value: Any, shape: Shape) -> bool:
        """Also true where the part cannot be looked at alone; the whole is validated in the end."""
        if _has_words(value):
            return False
        if "fitting" not in shape.cache:
            shape.cache["fitting"] = self._compiled(shape)
        validator = shape.cache["fitting"]
        return bool(validator is None or validator.is_valid(value))

    def _compiled(self, shape: Shape) -> Any:
        try:
            return jsonschema_rs.validator_for(
                {**self._definitions, **shape.keywords}, offline=True, validate_formats=True
            )
        except (ValueError, jsonschema_rs.ValidationError):
            return None


def _has_words(value: Any) -> bool:
    if isinstance(value, dict | list):
        return any(map(_has_words, value.values() if isinstance(value, dict) else value))
    return isinstance(value, Word | Several)
