# ruff: noqa: E501, SIM905  tables of words are easier to read in long lines
"""Objects within objects that nobody asked for, and values that lack the one around them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from services.corrector.form.edits import Guess
from services.corrector.form.embedded import json_within
from services.corrector.form.keys import folded
from services.corrector.form.shape import Shape, Shapes
from services.corrector.form.values import Several, same

MAX_DEPTH = 4
MAX_VISITED = 64
_ENVELOPE = frozenset(
    "status code message msg success error errors ok timestamp requestid traceid type version meta metadata result data response output answer id "
    "choices message content role arguments function name tool toolcalls finishreason index object created model usage "
    "状态 消息 结果 数据 explanation reasoning thought thoughts confidence note comment schema title description properties required".split()
)
_SCALAR_NAMES = ("value", "val", "amount", "text", "content", "data", "result", "值", "answer", "name")


def score(value: Any, shape: Shape) -> int:
    """How many of the schema's names an object has."""
    if not isinstance(value, dict):
        return 0
    known = shape.cache.setdefault("folded names", {folded(name) for name in shape.properties})
    return sum(folded(key[:200]) in known for key in value)


def unwrapped(value: Any, shape: Shape, shapes: Shapes) -> Guess | None:
    """The object or array within `value` that the schema is about."""
    if not shape.properties and "object" in shape.types:
        return None
    wants_array = "array" in shape.types and "object" not in shape.types
    own = 0 if wants_array else score(value, shape)
    if own and _has_required(value, shape):
        return None
    found = [
        (fit, depth, others, inner)
        for fit, depth, others, inner in _inner(value, shape, shapes, wants_array)
        if fit > own and (not own or _has_required(inner, shape))
    ]
    if not found:
        return None
    top = max(found, key=lambda item: (item[0], -item[1]))
    rivals = [inner for fit, depth, _, inner in found if fit == top[0] and depth == top[1] and not same(inner, top[3])]
    confidence = 0.55 if rivals else 0.9 if top[2] == 0 else 0.6
    return Guess(top[3], "what was wrapped in an object or array around it", confidence)


def _has_required(value: Any, shape: Shape) -> bool:
    return isinstance(value, dict) and {folded(key) for key in value} >= {folded(name) for name in shape.required}


def _inner(value: Any, shape: Shape, shapes: Shapes, wants_array: bool) -> Iterator[tuple[int, int, int, Any]]:
    """Fit, depth, number of other things around it that say something, and the inner value."""
    todo: list[tuple[Any, int, int]] = [(value, 0, 0)]
    for _ in range(MAX_VISITED):
        if not todo:
            return
        outer, depth, others = todo.pop(0)
        if depth:
            yield _fit(outer, shape, shapes, wants_array), depth, others, outer
        if depth == MAX_DEPTH or (depth and score(outer, shape)):
            continue
        if isinstance(outer, dict):
            telling = [key for key in outer if folded(key) not in _ENVELOPE]
            for key, inner in outer.items():
                num = sum(1 for other in telling if other != key)
                if isinstance(inner, str):
                    inner = json_within(inner)
                if isinstance(inner, dict | list):
                    todo.append((inner, depth + 1, others + num))
        elif isinstance(outer, list) and len(outer) <= 8:
            todo += [(inner, depth + 1, others + len(outer) - 1) for inner in outer if isinstance(inner, dict | list)]


def _fit(value: Any, shape: Shape, shapes: Shapes, wants_array: bool) -> int:
    if not wants_array:
        return score(value, shape)
    if not isinstance(value, list) or not value:
        return 0
    item = shapes.of(shape.items(0))
    if item.types == {"array"}:
        return int(all(isinstance(inner, list) for inner in value[:4]))
    if item.properties:
        return max(score(inner, item) for inner in value[:4])
    return int(not any(isinstance(inner, dict | list) for inner in value[:4]))


def wrapping(value: Any, shape: Shape, shapes: Shapes) -> Guess | None:
    """`{name: value}` where the schema asks for an object with one member that the value is."""
    if not isinstance(value, dict | list) or score(value, shape) or len(shape.required) != 1:
        return None
    name = shape.required[0]
    inner = shapes.of(shape.properties.get(name, True))
    is_object = isinstance(value, dict) and "object" in inner.types and score(value, inner)
    item = shapes.of(inner.items(0))
    is_array = (
        isinstance(value, list) and "array" in inner.types and value and (not item.properties or score(value[0], item))
    )
    if is_object or is_array:
        return Guess({name: value}, f"the value belongs into the member {name!r}", 0.85)
    return None


def scalar_within(value: Any) -> Any:
    """The scalar in `[x]`, `{"value": x}`; None if there is no such."""
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], dict | list | Several):
        return value[0]
    if isinstance(value, dict):
        inner = [value[name] for name in _SCALAR_NAMES if name in value]
        if not inner and len(value) == 1:
            inner = list(value.values())
        if inner and not isinstance(inner[0], dict | list | Several):
            return inner[0]
    return None


def is_alone(value: Any) -> bool:
    """An array of one item, or an object that has a value under a name for values and nothing else."""
    return len(value) == 1 and (isinstance(value, list) or next(iter(value)) in _SCALAR_NAMES)
