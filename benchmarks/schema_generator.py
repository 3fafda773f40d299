"""Made-up schemas of the kinds that public benchmarks hold, each with instances that are valid by how they were made.

Everything follows from the seed. Invalid instances break exactly one rule, each in another way; both sorts are checked
against the rule that made them, not against a validator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from benchmarks.schema_cases import Instance, SchemaCase, compact

MAX_DEPTH = 3
WORDS = (
    "order", "invoice", "customer", "address", "street", "city", "amount", "currency", "status", "created", "items",
    "price", "quantity", "email", "phone", "country", "comment", "owner", "version", "label", "weight", "客户", "größe",
)  # fmt: skip
TEXTS = ("", "a", "hello", "two words", 'with "quotes"', "back\\slash", "line\nbreak", "Zürich", "発注", "emoji 😀")
FORMATS = {
    "date": (("2024-02-29", "1999-12-31"), ("2024-13-01", "yesterday")),
    "date-time": (("2024-05-06T07:08:09Z",), ("2024-05-06 noon",)),
    "ipv4": (("10.0.0.1",), ("10.0.0.300", "10.0.0")),
    "ipv6": (("2001:db8::1", "::"), ("2001:::1",)),
    "email": (("ann@example.com",), ("ann at example",)),
}
PATTERNS = (
    (r"^[A-Z]{3}-[0-9]{4}$", ("ABC-1234",), ("abc-1234", "ABC-12345")),
    (r"^(red|green|blue)$", ("red", "blue"), ("purple", "red ")),
    (r"^\S+$", ("word", "ab-cd"), ("two words",)),
    (r"[0-9]{2}", ("a12b", "99"), ("a1b",)),
    (r"^.{2,5}$", ("ab", "abcde"), ("a", "abcdef", "a\rb")),
    (r"^(\([0-9]{3}\))?[0-9]{3}-[0-9]{4}$", ("555-1212", "(888)555-1212"), ("555-12123",)),
    (r"^第[0-9]+条$", ("第12条",), ("第条",)),
)


@dataclass(frozen=True)
class Made:
    """A schema, values that it allows, and values that it does not."""

    schema: dict[str, Any]
    good: list[Any]
    bad: list[Any] = field(default_factory=list)


Maker = Callable[[random.Random, int], Made]


def generate(seed: int, count: int) -> Iterator[SchemaCase]:
    """`count` schemas, whose root is an object, an array or a choice among such."""
    for number in range(count):
        dice = random.Random(f"{seed} {number}")
        made = dice.choice(ROOTS)(dice, 0)
        dialect = {"$schema": "http://json-schema.org/draft-07/schema#"}  # it asserts formats
        good = [Instance(compact(value), True) for value in made.good[:4]]
        bad = [Instance(compact(value), False) for value in _distinct(made.bad)[:6]]
        yield SchemaCase(f"{seed}-{number}", compact({**dialect, **made.schema}), (*good, *bad))


def _distinct(values: list[Any]) -> list[Any]:
    return list({compact(value): value for value in values}.values())


def _integer(dice: random.Random, depth: int) -> Made:
    low = dice.randint(-50, 50)
    high = low + dice.randint(1, 200)
    if dice.random() < 0.3:
        step = dice.choice([2, 5, 10])
        schema = {"type": "integer", "multipleOf": step}
        return Made(schema, [0, step, -3 * step], [step + 1, 0.5, "0", None])
    if dice.random() < 0.3:
        schema = {"type": "integer", "exclusiveMinimum": low, "exclusiveMaximum": high + 1}
        return Made(schema, [low + 1, high], [low, high + 1, low + 0.5])
    return Made({"type": "integer", "minimum": low, "maximum": high}, [low, high], [low - 1, high + 1, str(low), None])


def _number(dice: random.Random, depth: int) -> Made:
    low = dice.choice([0, -1.5, 10.25])
    good = [low, low + 0.75, low + 7.5]
    return Made({"type": "number", "minimum": low, "maximum": low + 10}, good, [low - 0.25, low + 10.5, "1", True])


def _text(dice: random.Random, depth: int) -> Made:
    low, high = dice.randint(0, 3), dice.randint(4, 12)
    good = [text for text in TEXTS if low <= len(text) <= high]
    bad = ["x" * (high + 1), 7, None, ["a"], *(["y" * (low - 1)] if low else [])]
    return Made({"type": "string", "minLength": low, "maxLength": high}, good or ["abcd"], bad)


def _pattern(dice: random.Random, depth: int) -> Made:
    pattern, good, bad = dice.choice(PATTERNS)
    return Made({"type": "string", "pattern": pattern}, list(good), [*bad, 5])


def _format(dice: random.Random, depth: int) -> Made:
    name = dice.choice(list(FORMATS))
    good, bad = FORMATS[name]
    return Made({"type": "string", "format": name}, list(good), [*bad, 5])


def _enum(dice: random.Random, depth: int) -> Made:
    values = dice.sample(["low", "high", 1, 2.5, None, True, {"a": 1}, [1, 2]], dice.randint(2, 5))
    return Made({"enum": values}, list(values), ["none of them", 99, [3]])


def _const(dice: random.Random, depth: int) -> Made:
    value = dice.choice(["fixed", 42, None, False, {"kind": "x"}])
    return Made({"const": value}, [value], ["other", 43])


def _flag(dice: random.Random, depth: int) -> Made:
    kind = dice.choice(["boolean", "null"])
    good: list[Any] = [True, False] if kind == "boolean" else [None]
    return Made({"type": kind}, good, ["true", 0])


def _maybe(dice: random.Random, depth: int) -> Made:
    return Made({"type": ["string", "null"]}, ["text", None], [1, False, {}])


def _array(dice: random.Random, depth: int) -> Made:
    item = _value(dice, depth + 1)
    low, high = dice.randint(0, 2), dice.randint(3, 4)
    good = [(item.good * 4)[:size] for size in (max(1, low), high)]
    bad: list[Any] = [(item.good * 6)[: high + 1], {}, "[]"]
    bad += [(item.good * 4)[: low - 1]] if low else []
    bad += [[*good[0][1:], wrong] for wrong in item.bad[:2]]
    return Made({"type": "array", "items": item.schema, "minItems": low, "maxItems": high}, good, bad)


def _tuple(dice: random.Random, depth: int) -> Made:
    first, second = _value(dice, depth + 1), _value(dice, depth + 1)
    schema = {"type": "array", "items": [first.schema, second.schema], "additionalItems": False, "minItems": 2}
    good = [[first.good[0], second.good[0]], [first.good[-1], second.good[-1]]]
    bad: list[Any] = [[first.good[0]], [*good[0], 1], *([wrong, second.good[0]] for wrong in first.bad[:1])]
    return Made(schema, good, bad)


def _object(dice: random.Random, depth: int) -> Made:
    names = dice.sample(WORDS, dice.randint(1, 5))
    parts = {name: _value(dice, depth + 1) for name in names}
    required = [name for name in names if dice.random() < 0.7]
    schema: dict[str, Any] = {"type": "object", "properties": {name: parts[name].schema for name in names}}
    if required:
        schema["required"] = required
    is_closed = dice.random() < 0.6
    if is_closed:
        schema["additionalProperties"] = False
    whole = {name: parts[name].good[0] for name in names}
    least = {name: whole[name] for name in names if name in required}
    good = [whole, {name: parts[name].good[-1] for name in names}, least]
    bad: list[Any] = [[], None, *({**whole, name: wrong} for name in names for wrong in parts[name].bad[:1])]
    bad += [{name: whole[name] for name in names if name != missing} for missing in required]
    bad += [{**whole, "unnamed": 1}] if is_closed else []
    return Made(schema, good, bad)


def _map(dice: random.Random, depth: int) -> Made:
    value = _value(dice, depth + 1)
    if dice.random() < 0.5:
        schema = {"type": "object", "additionalProperties": value.schema}
        good = [{}, {"a": value.good[0]}, {"a": value.good[0], "b": value.good[-1]}]
        return Made(schema, good, [{"a": wrong} for wrong in value.bad[:2]])
    schema = {"type": "object", "patternProperties": {"^x-": value.schema}, "additionalProperties": False}
    return Made(
        schema, [{}, {"x-a": value.good[0]}], [{"y": value.good[0]}, *({"x-a": wrong} for wrong in value.bad[:2])]
    )


def _any_of(dice: random.Random, depth: int) -> Made:
    """Of a kind each, so that what is wrong for all is known."""
    text, number = _text(dice, depth), _integer(dice, depth)
    keyword = dice.choice(["anyOf", "oneOf"])
    return Made({keyword: [text.schema, number.schema]}, [*text.good[:2], *number.good[:2]], [None, [], True])


def _all_of(dice: random.Random, depth: int) -> Made:
    low = dice.randint(0, 20)
    schema = {"allOf": [{"type": "integer", "minimum": low}, {"maximum": low + 10}]}
    return Made(schema, [low, low + 10], [low - 1, low + 11, "1"])


def _referred(dice: random.Random, depth: int) -> Made:
    part = _object(dice, MAX_DEPTH - 1)
    schema = {"$defs": {"part": part.schema}, "type": "array", "items": {"$ref": "#/$defs/part"}, "minItems": 1}
    return Made(schema, [[value] for value in part.good], [[], *([value] for value in part.bad[:4])])


def _recursive(dice: random.Random, depth: int) -> Made:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name"],
        "additionalProperties": False,
    }
    leaf = {"name": "leaf"}
    good = [leaf, {"name": "root", "children": [leaf, {"name": "b", "children": []}]}]
    return Made(schema, good, [{}, {"name": 1}, {"name": "r", "children": [{}]}, {"name": "r", "children": leaf}])


def _unique(dice: random.Random, depth: int) -> Made:
    """Beyond the grammar: the validator holds it."""
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    return Made(schema, [[], [1, 2, 3]], [[1, 1], ["a"]])


def _not(dice: random.Random, depth: int) -> Made:
    """Beyond the grammar: the validator holds it."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "not": {"const": "root"}}},
        "required": ["name"],
    }
    return Made(schema, [{"name": "ann"}], [{"name": "root"}, {}])


def _conditional(dice: random.Random, depth: int) -> Made:
    """Beyond the grammar: the validator holds it."""
    schema = {
        "type": "object",
        "properties": {"paid": {"type": "boolean"}, "date": {"type": "string"}},
        "required": ["paid"],
        "if": {"properties": {"paid": {"const": True}}},
        "then": {"required": ["date"]},
    }
    return Made(schema, [{"paid": False}, {"paid": True, "date": "today"}], [{"paid": True}, {}])


LEAVES: tuple[Maker, ...] = (
    _integer, _number, _text, _pattern, _format, _enum, _const, _flag, _maybe, _any_of, _all_of,
)  # fmt: skip
BRANCHES: tuple[Maker, ...] = (_array, _tuple, _object, _object, _map)
ROOTS: tuple[Maker, ...] = (
    _object, _object, _object, _object, _object, _object, _array, _tuple, _map, _referred, _recursive, _unique, _not,
    _conditional,
)  # fmt: skip


def _value(dice: random.Random, depth: int) -> Made:
    makers = LEAVES + BRANCHES if depth < MAX_DEPTH else LEAVES
    return deepcopy(dice.choice(makers)(dice, depth))
