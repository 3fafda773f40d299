"""What a schema says about one place: references followed, `allOf` merged, alternatives kept apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from stagemesh.validation.pointer import parse_pointer

MAX_REFERENCES = 32
ALL_TYPES = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
LEAF_KEYWORDS = frozenset(
    {
        "type", "enum", "const", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
        "multipleOf", "minLength", "maxLength",
    }
)  # fmt: skip
_IMPLIED = {
    "properties": "object", "required": "object", "items": "array", "prefixItems": "array", "pattern": "string",
    "minLength": "string", "maxLength": "string", "minimum": "number", "maximum": "number", "multipleOf": "number",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Shape:
    keywords: Mapping[str, Any]
    types: frozenset[str]
    is_typed: bool
    """The schema names types, or keywords that only make sense for one."""
    alternatives: tuple[Any, ...] = ()
    """Schemas of which one has to fit as well."""
    cache: dict[str, Any] = field(default_factory=dict)

    @property
    def properties(self) -> dict[str, Any]:
        return dict(self.keywords.get("properties") or {})

    @property
    def required(self) -> list[str]:
        return [name for name in self.keywords.get("required") or () if isinstance(name, str)]

    @property
    def enum(self) -> list[Any] | None:
        if "const" in self.keywords:
            return [self.keywords["const"]]
        options = self.keywords.get("enum")
        return options if isinstance(options, list) else None

    def items(self, index: int) -> Any:
        """The schema of an item; True where nothing is said."""
        prefix = self.keywords.get("prefixItems")
        if isinstance(self.keywords.get("items"), list):
            prefix, rest = self.keywords["items"], self.keywords.get("additionalItems", True)
        else:
            rest = self.keywords.get("items", True)
        return prefix[index] if isinstance(prefix, list) and index < len(prefix) else rest

    def accepts(self, value: Any) -> bool:
        """Whether a scalar satisfies what is said about scalars here, formats included."""
        return bool(self._leaf().is_valid(value))

    def _leaf(self) -> Any:
        if "leaf" not in self.cache:
            said = {key: value for key, value in self.keywords.items() if key in LEAF_KEYWORDS}
            try:
                self.cache["leaf"] = jsonschema_rs.validator_for(said, offline=True, validate_formats=True)
            except (ValueError, jsonschema_rs.ValidationError):
                self.cache["leaf"] = jsonschema_rs.validator_for({}, offline=True)
        return self.cache["leaf"]


class Shapes:
    """The shapes of one schema's parts, remembered."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._by_id: dict[int, tuple[Any, Shape]] = {}

    def of(self, schema: Any) -> Shape:
        """The shape of a part of the schema. The part is kept, so that its identity stays its own."""
        if id(schema) not in self._by_id:
            self._by_id[id(schema)] = (schema, self._make(self._merged(schema, 0)))
        return self._by_id[id(schema)][1]

    def with_alternative(self, shape: Shape, index: int) -> Shape:
        """The shape together with one of its alternatives."""
        key = f"alternative {index}"
        if key not in shape.cache:
            base = {name: value for name, value in shape.keywords.items() if name not in ("anyOf", "oneOf")}
            shape.cache[key] = self._make(_join(base, self._merged(shape.alternatives[index], 0)))
        made: Shape = shape.cache[key]
        return made

    def _make(self, keywords: dict[str, Any]) -> Shape:
        said = keywords.get("type")
        types = frozenset([said] if isinstance(said, str) else said if isinstance(said, list) else ())
        implied = frozenset(_IMPLIED[name] for name in _IMPLIED if name in keywords)
        alternatives = keywords.get("anyOf") or keywords.get("oneOf") or ()
        if not types and (options := keywords.get("enum") or ([keywords["const"]] if "const" in keywords else None)):
            implied = frozenset(_type_of(option) for option in options)
        return Shape(
            keywords=keywords,
            types=types or implied or ALL_TYPES,
            is_typed=bool(types or implied),
            alternatives=tuple(alternatives) if isinstance(alternatives, list) else (),
        )

    def _merged(self, schema: Any, depth: int) -> dict[str, Any]:
        if not isinstance(schema, dict) or depth > MAX_REFERENCES:
            return {}
        merged = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
        target = self._target(schema.get("$ref"))
        if target is not None:
            merged = _join(merged, self._merged(target, depth + 1))
        for part in schema.get("allOf") or ():
            merged = _join(merged, self._merged(part, depth + 1))
        return merged

    def _target(self, reference: Any) -> Any:
        """What a reference within the document leads to; None for others."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        if reference != "#" and not reference.startswith("#/"):
            return self._anchored(reference[1:])
        found = self._root
        for name in parse_pointer(unquote(reference[1:])):
            if isinstance(found, list) and name.isdigit() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                return None
        return found

    def _anchored(self, name: str) -> Any:
        definitions = {**(self._root.get("definitions") or {}), **(self._root.get("$defs") or {})}
        parts = (part for part in definitions.values() if isinstance(part, dict))
        return next((part for part in parts if part.get("$anchor") == name), None)


def _join(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    """Both at once, as far as this matters for coercion; the validator has the last word."""
    joined = {**right, **left}
    if "properties" in left and "properties" in right:
        joined["properties"] = {**right["properties"], **left["properties"]}
    if "required" in left and "required" in right:
        joined["required"] = list(dict.fromkeys([*left["required"], *right["required"]]))
    if "type" in left and "type" in right and left["type"] != right["type"]:
        sides = [{side["type"]} if isinstance(side["type"], str) else set(side["type"]) for side in (left, right)]
        both = sides[0] & sides[1]
        both |= (
            {"integer"}
            if any("integer" in s for s in sides) and all(s & {"integer", "number"} for s in sides)
            else set()
        )
        joined["type"] = sorted(both) or left["type"]
    return joined


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
    return "number"
