"""The chain of form: where the JSON is, its syntax, its values by schema and anchors, what the source gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from services.corrector.form.anchored import AnchoredKeys
from services.corrector.form.candidates import Candidate, candidates
from services.corrector.form.cuts import is_complete
from services.corrector.form.digits import exponents_in
from services.corrector.form.edits import Edit, Record, settled_words
from services.corrector.form.fitting import Fitting
from services.corrector.form.missing import filled
from services.corrector.form.reader import Reading
from services.corrector.form.settle import Settler
from services.corrector.form.shape import Shapes
from services.corrector.form.source import Source
from services.corrector.form.values import Word, same
from services.corrector.form.wrappers import score
from stagemesh.validation.json_text import BadJson, dump, parse
from stagemesh.validation.pointer import Path

MAX_SETTLED = 4
"""Candidates of one text that are settled."""
MAX_WIDE_NOTES = ("colons that are not JSON's", "commas that are not JSON's", "brackets that are not JSON's")
ODD_NOTE = "characters that are no white space of JSON"
SCALARS = frozenset({"number", "integer", "boolean"})
MAX_SCALAR_CHARS = 100
CLOSED, CUT = 0.85, 0.5


@dataclass
class Mended:
    """A value, and what leads to it from the text."""

    value: Any
    notes: dict[str, float] = field(default_factory=dict)
    """What was done to the text before it was JSON."""
    read_as: Any = None
    """The value before the edits."""
    edits: list[Edit] = field(default_factory=list)
    doubts: dict[Path, str] = field(default_factory=dict)
    issues: int = 0
    """Breaches that are left; filled by the chain."""

    @property
    def is_untouched(self) -> bool:
        return not self.notes and not any(edit.applied for edit in self.edits)


class Mender:
    """What one schema needs, kept for its next text."""

    def __init__(self, schema: Any, max_depth: int) -> None:
        self._max_depth = max_depth
        self._shapes, self._fitting = Shapes(schema), Fitting(schema)
        self._root = self._shapes.of(schema)

    def mend(
        self,
        text: str,
        anchors: AnchoredKeys,
        source: Source,
        min_confidence: float,
        count_issues: Callable[[str], int],
    ) -> Mended | None:
        """The likeliest meaning of a text; None if there is no JSON in it. `count_issues(JSON)`: breaches in it."""

        exponents = exponents_in(text)

        def settled(candidate: Candidate) -> Mended:
            return self._settled(candidate, anchors, source, min_confidence, count_issues, exponents)

        strict = self._strict(text)
        if strict is not None:
            return settled(strict)
        found = self._relevant(candidates(text, max_depth=self._max_depth))
        if not found:
            bare = text.strip()
            if not bare or len(bare) > MAX_SCALAR_CHARS or not self._root.types & SCALARS or not self._root.is_typed:
                return None
            notes = {"a value without quotes": 0.9}
            return settled(Candidate(Reading(Word(bare), len(text), notes), 0))
        if (gathered := self._gathered(found)) is not None:
            return settled(gathered)
        made = [settled(candidate) for candidate in found]
        return self._chosen(made, settled)

    def _strict(self, text: str) -> Candidate | None:
        try:
            value = parse(text, max_depth=self._max_depth)
        except BadJson:
            return None
        if isinstance(value, str) and "string" not in self._root.types:
            is_scalar = bool(self._root.types & SCALARS) and len(value) <= MAX_SCALAR_CHARS
            return Candidate(Reading(value, len(text)), 0) if is_scalar else None  # JSON in a string, or prose
        return Candidate(Reading(value, len(text)), 0)

    def _relevant(self, found: list[Candidate]) -> list[Candidate]:
        """The candidates that have something of the schema in them; all if none has."""
        fitting = [candidate for candidate in found if self._relevance(candidate.reading.value)]
        chosen = fitting or [candidate for candidate in found if candidate.reading.value not in ({}, [])] or found
        if self._root.types == {"array"} and len(chosen) > MAX_SETTLED:
            return chosen
        return chosen[:2] + chosen[2:][-2:]

    def _relevance(self, value: Any, depth: int = 0) -> int:
        if depth > 3 or not isinstance(value, dict | list):
            return 0
        shape = self._root if "object" in self._root.types else self._shapes.of(self._root.items(0))
        inner = list(value.values()) if isinstance(value, dict) else value
        own = score(value, shape) if isinstance(value, dict) else 0
        return own or max((self._relevance(item, depth + 1) for item in inner[:8]), default=0)

    def _gathered(self, found: list[Candidate]) -> Candidate | None:
        """Objects one after the other, where an array of them is asked for."""
        if self._root.types != {"array"} or len(found) < 2 or not all(isinstance(c.reading.value, dict) for c in found):
            return None
        notes = {"objects one after the other instead of an array": 0.85}
        for candidate in found:
            notes.update(candidate.reading.notes | candidate.notes)
        reading = Reading(
            [candidate.reading.value for candidate in found], found[-1].reading.end, cut=found[-1].reading.cut
        )
        return Candidate(reading, found[0].start, notes)

    def _settled(
        self, candidate: Candidate, anchors: AnchoredKeys, source: Source, min_confidence: float,
        count_issues: Callable[[str], int], exponents: dict[Decimal, str],
    ) -> Mended:  # fmt: skip
        reading, record = candidate.reading, Record(min_confidence)
        notes = {**candidate.notes, **reading.notes}
        if reading.several:
            notes["a name that stood for different values"] = 0.85
        read_as = settled_words(reading.value)
        settler = Settler(
            self._shapes, self._fitting, anchors, source, record,
            text_is_wide=any(note in reading.notes for note in MAX_WIDE_NOTES), partial=reading.partial,
            text_is_odd=ODD_NOTE in reading.notes, exponents=exponents,
        )  # fmt: skip
        value = settler.settle(reading.value, self._root)
        value = filled(value, settler.gaps, source, record)
        if reading.cut:
            full = is_complete(reading, value, record, self._shapes, self._root)
            notes["truncated: the text ends before its JSON does"] = CLOSED if full else CUT
        done = Mended(value, notes, read_as, record.edits, record.doubts)
        done.issues = count_issues(dump(value))
        return done

    def _chosen(self, made: list[Mended], settled: Callable[[Candidate], Mended]) -> Mended:
        """Of several meanings the one that holds; not certain where another one that holds says something else."""
        valid = [mended for mended in made if mended.issues == 0]
        if not valid and (joined := self._joined(made, settled)) is not None:
            return joined
        pool = valid or made
        top = min(pool, key=lambda mended: (mended.issues, _weight(mended)))
        others = [mended for mended in made if mended is not top and not same(mended.value, top.value)]
        contrary = [mended for mended in others if mended.issues == 0 or not _agrees(mended.read_as, top.value)]
        if contrary:
            top.notes["one of several JSON values was taken"] = 0.6
        elif len(made) > 1:
            top.notes["the same JSON stood there more than once"] = 0.85
        return top

    def _joined(self, made: list[Mended], settled: Callable[[Candidate], Mended]) -> Mended | None:
        """Parts of one object that stand one after the other."""
        parts = [mended.read_as for mended in made]
        if len(parts) < 2 or not all(isinstance(part, dict) for part in parts):
            return None
        merged = {key: value for part in parts for key, value in part.items()}
        if len(merged) != sum(map(len, parts)):
            return None
        notes = {
            **{note: c for mended in made for note, c in mended.notes.items()},
            "parts of one object were joined": 0.7,
        }
        joined = settled(Candidate(Reading(merged, 0), 0, notes))
        return joined if joined.issues == 0 else None


def _weight(mended: Mended) -> int:
    """How much was done to get there, in tenths of certainty lost."""
    lost = [1 - confidence for confidence in mended.notes.values()] + [1 - edit.confidence for edit in mended.edits]
    return int(10 * sum(lost)) + 5 * len(mended.doubts)


def _agrees(part: Any, whole: Any) -> bool:
    """Whether all that a value says is in another one: an attempt that was begun again."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and _agrees(item, whole[key]) for key, item in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(_agrees, part, whole))
    if isinstance(part, str) and isinstance(whole, str):
        return whole.startswith(part)
    return same(part, whole)
