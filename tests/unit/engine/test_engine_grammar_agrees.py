"""What the grammar of a schema allows, the validator accepts: random answers, and all that patterns differ in."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer

from services.engine.end_finder import EndFinder
from services.engine.grammar_source import STRICT_OPTIONS, json_grammar, read_schema
from services.gateway.http.order import UNGUIDED_FORMATS
from stagemesh.validation.limits import Limits
from stagemesh.validation.schema import compile_schema

BYTES = LLTokenizer("byte")
FINDER = EndFinder([bytes([byte]) for byte in range(256)], frozenset())
NUM_WALKS = 40
MAX_WALK_BYTES = 60


def matcher_of(schema: dict[str, Any]) -> LLMatcher:
    """Strict: what the grammar leaves to the validator is no grammar here."""
    matcher = LLMatcher(BYTES, json_grammar(read_schema(json.dumps(schema)), STRICT_OPTIONS), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    return matcher


def walk(matcher: LLMatcher, dice: random.Random) -> str:
    """A random text of the grammar."""
    state, text = matcher.deep_copy(), bytearray()
    while not state.is_stopped() and len(text) < MAX_WALK_BYTES:
        allowed = np.unpackbits(np.frombuffer(state.compute_bitmask(), np.uint8), bitorder="little")[:256]
        if state.is_accepting() and dice.random() < 0.3:
            break
        choices = np.flatnonzero(allowed)
        if not len(choices):
            break
        text.append(int(dice.choice(choices.tolist())))
        assert state.consume_token(text[-1])
    if not state.is_accepting() and not state.is_stopped():
        end = FINDER.find(state)
        assert end is not None
        text += bytes(end)
    return text.decode()


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}  # which asserts formats
FORMATS = ("date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
SCHEMAS: dict[str, dict[str, Any]] = {
    **{f"format {name}": {**DRAFT_7, "type": "string", "format": name} for name in FORMATS},
    **{
        f"pattern {pattern}": {"type": "string", "pattern": pattern}
        for pattern in (
            r"^.{2,4}$", r"^\S+@\S+\.\w{2,3}$", r"^\s*\d+(\.\d+)?\s*$", r"^[^\s\d]+$", r"^[\w.-]{1,9}$", r"^[+--]+$",
            r"^[[&&~]{1,4}$", r"\d{3}", r"^(\(\d{3}\))?\d{3}-\d{4}$", r"^\p{Lu}\p{L}*$", r"^\cJ$", r"^\u00e9+$",
            r"^[^\n]{1,3}$", r"^(?:[A-Z]{2}|\W)$", r"^\D\S$",
        )
    },
    "length": {"type": "string", "minLength": 2, "maxLength": 5},
    "length and pattern": {"type": "string", "pattern": "^a.*b$", "minLength": 4, "maxLength": 6},
    "integer": {"type": "integer", "minimum": -17, "maximum": 230},
    "exclusive": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 12},
    "number": {"type": "number", "minimum": -1.5, "exclusiveMaximum": 2.25},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 200},
    "cents": {"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 10},
    "array": {"type": "array", "items": {"enum": [1, "a", None, [2], {"b": 3}]}, "minItems": 1, "maxItems": 3},
    "tuple": {"type": "array", "prefixItems": [{"type": "boolean"}, {"const": "x"}], "items": False, "minItems": 2},
    "map": {"type": "object", "patternProperties": {"^n.$": {"type": "null"}}, "additionalProperties": False},
    "choice": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 2}, {"type": "integer", "maximum": 5}]},
    "object": {
        "type": "object",
        "properties": {"a": {"type": "boolean"}, "b": {"const": 'quo"te\n'}, "é": {"type": "null"}},
        "required": ["é"],
    },
    "both": {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 8}]},
    "tree": {"type": "object", "properties": {"next": {"$ref": "#"}}},
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMAS)
def test_whatever_the_grammar_allows_is_valid(name: str) -> None:
    schema = SCHEMAS[name]
    matcher, validator = matcher_of(schema), compile_schema(json.dumps(schema), Limits())
    dice = random.Random(name)
    for _ in range(NUM_WALKS):
        text = walk(matcher, dice)
        assert not validator.issues(json.loads(text)), text


ATOMS = (
    ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", "[^a]", r"[\s\S]", r"[^\d]", r"[\w-]", r"[^\s]", r"[\S]", r"[\s-]",
    r"\t", r"\v", r"\cA", r"\x41", r"\u0041", r"\/", r"\-", r"\.", "[.]", "[[]", "[&&]", "[~]", r"[\]]", "[+--]",
    "[a[b]", r"\p{L}", r"\P{L}", "[^\n]", "",
)  # fmt: skip
TEXTS = ["", "ab", "a\n", *map(chr, range(256)), *"\u017f\u0660\u1680\u180e\u2003\u200b\u2028\u2029\u3000\ufeff一Ａ😀"]


@pytest.mark.parametrize("atom", ATOMS)
def test_a_pattern_means_the_same_to_grammar_and_validator(atom: str) -> None:
    schema = {"type": "string", "pattern": f"^{atom}$"}
    matcher, validator = matcher_of(schema), jsonschema_rs.validator_for(schema)
    for text in TEXTS:
        written = {json.dumps(text), json.dumps(text, ensure_ascii=False)}
        fits = any(_fits(matcher, spelling) for spelling in written)
        assert fits == validator.is_valid(text), repr(text)


def _fits(matcher: LLMatcher, text: str) -> bool:
    state, data = matcher.deep_copy(), list(text.encode())
    return bool(state.try_consume_tokens(data) == len(data) and state.is_accepting())


def test_names_that_look_like_keywords_are_left_alone() -> None:
    schema = {
        "type": "object",
        "properties": {"pattern": {"type": "string", "pattern": "^.$"}, "enum": {"enum": [{"pattern": "."}]}},
        "required": ["pattern", "enum"],
    }
    matcher = matcher_of(schema)
    assert _fits(matcher, '{"pattern":"x","enum":{"pattern":"."}}')
    assert not _fits(matcher, '{"pattern":"\\r","enum":{"pattern":"."}}')


ALL_FORMATS = (
    "date", "time", "date-time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uuid",
    "uri", "uri-reference", "iri", "iri-reference", "uri-template", "json-pointer", "relative-json-pointer", "regex",
)  # fmt: skip


def test_the_formats_for_which_streams_wait_are_those_that_no_grammar_holds() -> None:
    grammars = {name: json_grammar({"type": "string", "format": name}) for name in ALL_FORMATS}
    matchers = {name: LLMatcher(BYTES, grammar, log_level=0) for name, grammar in grammars.items()}
    assert {name for name, matcher in matchers.items() if _fits(matcher, '"<< >>"')} == set(UNGUIDED_FORMATS)
