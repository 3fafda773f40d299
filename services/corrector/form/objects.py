"""Objects: their members' names, what is wrapped around them, what they lack and what they should not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonschema_rs

from services.corrector.form.edits import ABSENT, Guess
from services.corrector.form.embedded import json_within
from services.corrector.form.keys import MAX_NAME_CHARS, folded, renamed, renamings, without
from services.corrector.form.missing import Gap
from services.corrector.form.scalars import scalar_guesses
from services.corrector.form.shape import Shape
from services.corrector.form.tables import EMPTY, header_of, row_guess
from services.corrector.form.values import Several, Word, same
from services.corrector.form.wrappers import is_alone, scalar_within, unwrapped, wrapping
from stagemesh.validation.pointer import Path

if TYPE_CHECKING:
    from services.corrector.form.settle import Settler


_NAMES = ("key", "name", "field")
"""Under which a member's name stands beside its `value`."""


class ObjectFit:
    def __init__(self, settler: Settler, shape: Shape, path: Path) -> None:
        self._settler, self._shape, self._path = settler, shape, path

    def settle(self, members: dict[str, Any]) -> Any:
        inner = self._without_wrapper(members)
        if inner is not members:
            return self._settler.settle(inner, self._shape, self._path)
        members = self._with_rows(self._with_names(self._gathered(members)))
        settled = {}
        for key, item in members.items():
            shape = self._settler.shapes.of(self._schema_of(key))
            settled[key] = self._settler.settle(item, shape, (*self._path, key))
        settled = self._completed(settled)
        return self._without_extras(settled)

    def _without_wrapper(self, members: dict[str, Any]) -> Any:
        guess = unwrapped(members, self._shape, self._settler.shapes) or wrapping(
            members, self._shape, self._settler.shapes
        )
        return members if guess is None else self._settler.propose(self._path, members, guess)

    def _gathered(self, members: dict[str, Any]) -> dict[str, Any]:
        """With the objects whose members stand beside them: `lead_name` and `lead.pager` for `lead`."""
        for name in self._shape.required:
            schema = self._settler.shapes.of(self._schema_of(name))
            if name in members or schema.types != {"object"} or not schema.required:
                continue
            beside = {folded(name + inner): inner for inner in schema.properties}
            found = {
                key: beside[folded(key[:MAX_NAME_CHARS])] for key in members if folded(key[:MAX_NAME_CHARS]) in beside
            }
            is_clear = len(set(found.values())) == len(found) and not self._shape.properties.keys() & found.keys()
            if not is_clear or not set(found.values()) >= set(schema.required):
                continue
            gathered = Guess(
                {found[key]: members[key] for key in found}, f"the members of {name!r} stood beside it", 0.85, "key"
            )
            if self._settler.propose((*self._path, name), ABSENT, gathered) is ABSENT:
                continue
            members = {**members, name: gathered.value}
            for key in found:
                removal = Guess(ABSENT, gathered.reason, gathered.confidence, "key")
                self._settler.propose((*self._path, key), members[key], removal)
                members = without(members, key)
        return members

    def _with_names(self, members: dict[str, Any]) -> dict[str, Any]:
        known = self._shape.properties
        unknown = [key for key in members if key not in known and not self._is_patterned(key)]
        if not unknown or not known:
            return members
        missing = [key for key in known if key not in members]
        found = renamings(
            unknown, missing, frozenset(self._shape.required), is_closed=self._is_closed,
            is_plausible=lambda old, new: self._is_plausible(members[old], known[new]),
        )  # fmt: skip
        for made in found:
            value = members[made.old]
            removal = Guess(ABSENT, made.reason, made.confidence, "key")
            if self._settler.propose((*self._path, made.old), value, removal) is ABSENT:
                self._settler.propose(
                    (*self._path, made.new), ABSENT, Guess(value, made.reason, made.confidence, "key")
                )
                members = renamed(members, made.old, made.new)
        return self._without_twins(members)

    def _without_twins(self, members: dict[str, Any]) -> dict[str, Any]:
        """Members that stand twice under two spellings of one name."""
        known = {folded(key): key for key in self._shape.properties}
        for key in list(members):
            twin = known.get(folded(key[:MAX_NAME_CHARS]))
            if key in self._shape.properties or twin is None or twin not in members:
                continue
            if not isinstance(members[twin], Several) and same(members[key], members[twin]):
                guess = Guess(ABSENT, f"the same as {twin!r}", 0.85, "key")
                if self._settler.propose((*self._path, key), members[key], guess) is ABSENT:
                    members = without(members, key)
            else:
                self._settler.record.doubt((*self._path, twin), f"{key!r} says something else")
        return members

    def _with_rows(self, members: dict[str, Any]) -> dict[str, Any]:
        """Rows that are longer or shorter than the header beside them."""
        table = header_of(members)
        if table is None:
            return members
        name, width = table
        for index, row in enumerate(members[name]):
            if len(row) == width:
                continue
            path = (*self._path, name, index)
            guess = row_guess(row, width, lambda _: True)
            if guess is None or guess.confidence < 0.8:
                self._settler.record.doubt(path, f"the row has {len(row)} cells, but the header has {width}")
            elif self._settler.propose(path, row, guess) is guess.value:
                rows = list(members[name])
                rows[index] = guess.value
                members = {**members, name: rows}
        return members

    def _completed(self, members: dict[str, Any]) -> dict[str, Any]:
        for name in self._shape.required:
            if name in members:
                continue
            schema = self._schema_of(name)
            shape, path = self._settler.shapes.of(schema), (*self._path, name)
            if shape.enum is not None and len(shape.enum) == 1:
                guess = Guess(shape.enum[0], "the only value that the schema allows", 0.85)
                members[name] = self._settler.propose(path, ABSENT, guess)
            elif "default" in shape.keywords:
                guess = Guess(shape.keywords["default"], "missing; the schema's default", 0.5)
                members[name] = self._settler.propose(path, ABSENT, guess)
            else:
                self._settler.gaps.append(
                    Gap(path, shape, self._settler.about(shape, path), self._settler.anchors.at(path))
                )
        return {key: value for key, value in members.items() if value is not ABSENT}

    def _without_extras(self, members: dict[str, Any]) -> dict[str, Any]:
        """Members that the schema does not allow, once nothing is missing that they could be."""
        if not self._is_closed or any(name not in members for name in self._shape.required):
            return members
        for key in list(members):
            if key in self._shape.properties or self._is_patterned(key):
                continue
            confidence = 0.75 if members[key] in EMPTY or members[key] in ({}, []) else 0.55
            guess = Guess(ABSENT, "the schema does not allow this member", confidence)
            if self._settler.propose((*self._path, key), members[key], guess) is ABSENT:
                members = without(members, key)
        return members

    @property
    def _is_closed(self) -> bool:
        keywords = self._shape.keywords
        return keywords.get("additionalProperties") is False or keywords.get("unevaluatedProperties") is False

    def _is_patterned(self, key: str) -> bool:
        return any(
            _matches(pattern, key, self._shape) for pattern in self._shape.keywords.get("patternProperties") or ()
        )

    def _schema_of(self, key: str) -> Any:
        known = self._shape.properties
        if key in known:
            return known[key]
        for pattern, schema in (self._shape.keywords.get("patternProperties") or {}).items():
            if _matches(pattern, key, self._shape):
                return schema
        more = self._shape.keywords.get("additionalProperties", True)
        return more if isinstance(more, dict) else True

    def _is_plausible(self, value: Any, schema: Any) -> bool:
        shape = self._settler.shapes.of(schema)
        if shape.alternatives or isinstance(value, Several):
            return True
        if isinstance(value, dict | list):
            return bool(shape.types & {"object", "array"})
        if (not isinstance(value, Word) and shape.accepts(value)) or scalar_guesses(value, shape, ""):
            return True
        return "array" in shape.types or (
            isinstance(value, str) and "object" in shape.types and json_within(value) is not None
        )

    def guess_from(self, value: Any) -> Guess | None:
        """An object made of a value that is none."""
        if isinstance(value, str):
            inner = json_within(value)
            return None if inner is None else Guess(inner, "JSON that was written as a text", 0.85)
        if not isinstance(value, list):
            return None
        if members := self._members_of(value):
            return members
        if inner := unwrapped(value, self._shape, self._settler.shapes):
            return inner
        if value and all(isinstance(item, dict) for item in value) and all(same(item, value[0]) for item in value):
            return Guess(value[0], "an array where an object is asked for", 0.85)
        if value and all(isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) for item in value):
            return Guess(dict(value), "pairs of names and values", 0.75)
        return None

    def _members_of(self, items: list[Any]) -> Guess | None:
        """Members that stand one by one in an array: `[{"a": 1}, {"b": 2}]`, `[{"key": "a", "value": 1}, …]`."""
        if len(items) < 2 or not all(isinstance(item, dict) for item in items):
            return None
        pairs = [next(iter(item.items())) for item in items if len(item) == 1]
        if len(pairs) < len(items):
            names = [next((item[name] for name in _NAMES if name in item), None) for item in items]
            pairs = [
                (name, item["value"])
                for name, item in zip(names, items, strict=True)
                if isinstance(name, str) and len(item) == 2 and "value" in item
            ]
        members = dict(pairs)
        if len(members) < len(items) or not members.keys() >= set(self._shape.required) or not self._shape.required:
            return None
        return Guess(members, "members that stood one by one in an array", 0.85)

    def scalar_from(self, value: Any) -> Guess | None:
        inner = scalar_within(value)
        return (
            None
            if inner is None
            else Guess(inner, "a single value in an array or object", 0.82 if is_alone(value) else 0.6)
        )


def _matches(pattern: str, key: str, shape: Shape) -> bool:
    made = shape.cache.setdefault("patterns", {})
    if pattern not in made:
        try:
            made[pattern] = jsonschema_rs.validator_for({"pattern": pattern}, offline=True)
        except (ValueError, jsonschema_rs.ValidationError):
            made[pattern] = jsonschema_rs.validator_for(False, offline=True)
    return bool(made[pattern].is_valid(key))
