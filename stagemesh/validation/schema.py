"""JSON Schema 2020-12 and 7 (and what else the library knows by `$schema`), never reaching outside the document."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
from jsonschema_rs import ValidationError, ValidationErrorKind

from stagemesh.validation.formats import FormatCheck
from stagemesh.validation.json_text import BadJson, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.pointer import Path, to_pointer
from stagemesh.validation.refusal import TOO_LARGE, Refusal
from stagemesh.validation.sentences import rule_of, sentence_of, suggestion_of
from stagemesh.validation.verdict import Issue

FIELD = "constraint.json_schema"
DEFAULT_DIALECT = "https://json-schema.org/draft/2020-12/schema"
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "$schema")

Retriever = Callable[[str], Any]


class CompiledSchema:
    def __init__(self, validator: jsonschema_rs.Validator, formats: FormatCheck) -> None:
        self._validator = validator
        self._formats = formats

    def issues(self, value: Any, *, brief: bool = False) -> list[Issue]:
        """What is wrong with a parsed value, and warnings; with `brief` only the first breach, which costs little
        memory."""
        breaches = self._breaches(value, brief=brief)
        return breaches if brief else [*breaches, *self._formats.warnings(value, breaches)]

    def _breaches(self, value: Any, *, brief: bool) -> list[Issue]:
        if self._validator.is_valid(value):
            return []
        if not brief:
            return [_issue(error) for error in self._validator.iter_errors(value)]
        try:
            self._validator.validate(value)
        except ValidationError as error:
            return [_issue(error)]
        return []


def compile_schema(text: str, limits: Limits, *, retriever: Retriever | None = None) -> CompiledSchema:
    """The schema in a JSON text, ready for use.

    `retriever` gives documents of other URIs; without one they are out of reach. Raises Refusal that names the place.
    """
    if len(text.encode()) > limits.max_constraint_bytes:
        message = f"the schema has {len(text.encode())} bytes; {limits.max_constraint_bytes} are allowed"
        raise Refusal(TOO_LARGE, message, field=FIELD)
    try:
        schema = parse(text, max_depth=limits.max_depth)
    except BadJson as error:
        raise _invalid(f"the schema cannot be read: {error}", error.issues[0].pointer) from None
    if not isinstance(schema, dict | bool):
        raise _invalid("a schema must be an object, true or false")
    try:
        if isinstance(schema, dict) and not isinstance(schema.get("$schema", ""), str):
            raise _invalid("$schema must be a string", "/$schema")
        outside: dict[str, Any] = {"retriever": retriever} if retriever else {"offline": True}
        formats = FormatCheck(schema, lambda: jsonschema_rs.validator_for(schema, validate_formats=True, **outside))
        return CompiledSchema(jsonschema_rs.validator_for(schema, **outside), formats)
    except ValidationError as error:
        raise _unusable(schema, error) from None
    except ValueError as error:  # what the library says about nesting and numbers that it cannot hold
        raise _invalid(str(error).splitlines()[0]) from None


def _issue(error: ValidationError) -> Issue:
    return Issue(
        pointer=to_pointer(error.instance_path),
        rule=rule_of(error),
        message=sentence_of(error),
        suggestion=suggestion_of(error),
    )


def _invalid(message: str, pointer: str = "") -> Refusal:
    return Refusal("INVALID_SCHEMA", message, field=f"{FIELD}#{pointer}" if pointer else FIELD)


def _unusable(schema: Any, error: ValidationError) -> Refusal:
    if not isinstance(error.kind, ValidationErrorKind.Referencing):
        return _invalid(f"the schema is not valid: {sentence_of(error)}", to_pointer(error.instance_path))
    path, reference = next(
        ((path, reference) for path, reference in _references(schema, ()) if _is_at_fault(reference, error)), ((), "")
    )
    if path and path[-1] == "$schema":
        return _invalid(
            f"{reference!r} names a dialect that is not known; use {DEFAULT_DIALECT} or leave $schema out", "/$schema"
        )
    what = f"the reference {reference!r}" if reference else "a reference"
    return _invalid(
        f"{what} does not lead anywhere within the schema; nothing is fetched from outside, so put it under $defs",
        to_pointer(path),
    )


def _is_at_fault(reference: str, error: ValidationError) -> bool:
    # The library resolves a reference before it complains, so the message may hold only its last part.
    return any(part and part in error.message for part in (reference, reference.rpartition("#")[2]))


def _references(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in REFERENCES and isinstance(item, str):
                yield (*path, key), item
            else:
                yield from _references(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _references(item, (*path, index))
