"""From what a caller asks for to a grammar of llguidance. Imports no gRPC: it runs in the trial process, too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from llguidance import LLMatcher

from services.engine.schema_closing import close_objects
from services.engine.schema_patterns import with_plain_patterns
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.grammar import lark_of
from stagemesh.validation.json_text import BadJson, dump, parse
from stagemesh.validation.pointer import Path, to_pointer
from stagemesh.validation.refusal import Refusal

JSON_OPTIONS = {"whitespace_flexible": False, "lenient": True}
"""Compact JSON: a small model loses itself in white space. What the grammar cannot express of a schema (`not`,
`uniqueItems`, …) is left to the validator."""
STRICT_OPTIONS = {"whitespace_flexible": False}
"""Refuses what the grammar cannot express."""
MAX_NESTING = 100
"""Depth of a schema's document."""
FIELDS = {
    Kind.NONE: "constraint",
    Kind.JSON_SCHEMA: "constraint.json_schema",
    Kind.JSON_OBJECT: "constraint.json_object",
    Kind.REGEX: "constraint.regex",
    Kind.GRAMMAR: "constraint.grammar",
    Kind.CHOICE: "constraint.choice",
}


def invalid(message: str, kind: Kind, path: Path = ()) -> Refusal:
    """`path` leads to the place in a schema."""
    pointer = to_pointer(path)
    return Refusal("INVALID_CONSTRAINT", message, field=f"{FIELDS[kind]}#{pointer}" if pointer else FIELDS[kind])


def grammar_of(constraint: Constraint) -> str:
    """The grammar, unchecked but for what it is made of. Raises Refusal."""
    match constraint.kind:
        case Kind.JSON_SCHEMA:
            return json_grammar(read_schema(constraint.source))
        case Kind.JSON_OBJECT:
            return json_grammar({"type": "object"})
        case Kind.REGEX:
            return str(LLMatcher.grammar_from_regex(constraint.source))
        case Kind.GRAMMAR:
            return str(LLMatcher.grammar_from_lark(_lark_of(constraint.source)))
        case Kind.CHOICE:
            return _choice_grammar(constraint.choices)
    raise invalid("it is empty: give a JSON schema, json_object, a regex, a grammar or choices", Kind.NONE)


def _lark_of(grammar: str) -> str:
    try:
        return lark_of(grammar)
    except Refusal as refusal:
        raise invalid(refusal.message, Kind.GRAMMAR) from refusal


def read_schema(text: str) -> dict[str, Any]:
    """The schema as an object, without the library's own switches. Raises Refusal."""
    try:
        schema = parse(text, max_depth=MAX_NESTING)
    except BadJson as error:
        raise invalid(f"the schema cannot be read: {error}", Kind.JSON_SCHEMA) from None
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        raise invalid("the schema must be a JSON object", Kind.JSON_SCHEMA)
    schema.pop("x-guidance", None)  # these are not the caller's to set
    return schema


def json_grammar(schema: dict[str, Any], options: dict[str, Any] = JSON_OPTIONS, *, closes: bool = True) -> str:
    """Of a schema that `read_schema` gave, which may be changed. Raises Refusal.

    With `closes`, objects hold no properties that the schema does not name.
    """
    try:
        schema = with_plain_patterns(close_objects(schema) if closes else schema)
        return str(LLMatcher.grammar_from_json_schema(dump(schema), overrides=options))
    except ValueError as error:
        raise invalid(f"the schema cannot be used: {error}", Kind.JSON_SCHEMA) from None


def _choice_grammar(values: Sequence[str]) -> str:
    if not values or not all(values):
        raise invalid("a choice needs values, none of them empty", Kind.CHOICE)
    alternatives = " | ".join(json.dumps(value) for value in dict.fromkeys(values))
    return str(LLMatcher.grammar_from_lark(f"start: CHOICE\nCHOICE: {alternatives}"))  # one terminal: thousands fit
