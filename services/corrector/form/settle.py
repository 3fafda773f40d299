"""Walk through a value with its schema, and give each place what the schema asks for there."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from services.corrector.changes import CERTAIN
from services.corrector.form.anchored import AnchoredKeys, key_guesses
from services.corrector.form.arrays import ArrayFit
from services.corrector.form.edits import ABSENT, Guess, Record, best, settled_words
from services.corrector.form.fitting import Fitting
from services.corrector.form.missing import Gap
from services.corrector.form.names import text_guess
from services.corrector.form.objects import ObjectFit
from services.corrector.form.scalars import scalar_guesses
from services.corrector.form.shape import Shape, Shapes
from services.corrector.form.source import Source
from services.corrector.form.values import Several, Word, same
from stagemesh.validation.pointer import Path

MAX_STEPS = 60_000
"""Places that are looked at, alternatives counted; the rest stays as it is."""
MAX_ALTERNATIVES = 16
MAX_DEPTH = 200


@dataclass
class Settler:
    shapes: Shapes
    fitting: Fitting
    anchors: AnchoredKeys
    source: Source
    record: Record
    text_is_wide: bool = False
    """The text around the values was written with full-width punctuation."""
    text_is_odd: bool = False
    """There were control characters or the like around the values."""
    exponents: dict[Decimal, str] = field(default_factory=dict)
    """How numbers with an exponent stand in the text, which a parsed number does not tell: `1e5`."""
    partial: Path | None = None
    """The scalar in which the text was cut off."""
    gaps: list[Gap] = field(default_factory=list)
    steps: list[int] = field(default_factory=lambda: [0])

    def settle(self, value: Any, shape: Shape, path: Path = ()) -> Any:
        """The value with its edits in `record`, and what could not be filled in `gaps`."""
        self.steps[0] += 1
        if self.steps[0] > MAX_STEPS or len(path) > MAX_DEPTH:
            self.record.doubt((), "too large to be looked at in every place")
            return settled_words(value)
        if isinstance(value, Several):
            value = self._chosen(value, shape, path)
        if shape.alternatives:
            return self._alternative(value, shape, path)
        if isinstance(value, dict) and "object" in shape.types:
            return ObjectFit(self, shape, path).settle(value)
        if isinstance(value, list) and "array" in shape.types:
            return ArrayFit(self, shape, path).settle(value)
        if isinstance(value, dict | list) or not (shape.types - {"object", "array"}):
            return self._container(value, shape, path)
        return self._scalar(value, shape, path)

    def propose(self, path: Path, before: Any, guess: Guess) -> Any:
        """Apply a guess, if it changes anything; bare words are texts on both sides of an edit."""
        old = settled_words(before) if before is not ABSENT else before
        if old is not ABSENT and type(old) is type(guess.value) and same(old, settled_words(guess.value)):
            if guess.confidence < CERTAIN:
                self.record.doubt(path, f"it may be {guess.reason}, or something else")
            return guess.value
        applied = self.record.propose(
            path, old, Guess(settled_words(guess.value), guess.reason, guess.confidence, guess.step)
        )
        return guess.value if self.record.edits[-1].applied else applied

    def about(self, shape: Shape, path: Path) -> str:
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        said = (shape.keywords.get(key, "") for key in ("title", "description", "unit"))
        return " ".join([name, *(text[:200] for text in said if isinstance(text, str))])

    def _container(self, value: Any, shape: Shape, path: Path) -> Any:
        """A value of the wrong kind where an object, an array or a scalar is asked for."""
        fit = ArrayFit(self, shape, path) if "array" in shape.types else ObjectFit(self, shape, path)
        guess = fit.guess_from(value) if shape.types & {"object", "array"} else fit.scalar_from(value)
        if guess is None or (after := self.propose(path, value, guess)) is not guess.value:
            self._gap(value, shape, path)
            return settled_words(value)
        if isinstance(after, dict | list) or shape.types - {"object", "array"}:
            return self.settle(after, shape, path)
        return settled_words(after)

    def _gap(self, value: Any, shape: Shape, path: Path) -> None:
        """A value that cannot be what is asked for; the source may have the right one."""
        if path:
            plain = settled_words(value)
            self.gaps.append(Gap(path, shape, self.about(shape, path), self.anchors.at(path), plain))

    def _scalar(self, value: Any, shape: Shape, path: Path) -> Any:
        keys = self.anchors.at(path)
        accepted = not isinstance(value, Word) and shape.accepts(value)
        if keys is not None and value is not None and not isinstance(value, bool):
            guesses = key_guesses(value, keys, shape, self.source, is_cut=path == self.partial)
            if guesses is None and accepted:
                return value
            if guesses:
                top = best(guesses) if len(guesses) == 1 else guesses[0]
                assert top is not None
                return settled_words(self.propose(path, value, top))
            if guesses is not None:
                self._gap(value, shape, path)
                return settled_words(value)
        if accepted:
            return self._soft(value, shape, path)
        return self._coerced(value, shape, path)

    def _soft(self, value: Any, shape: Shape, path: Path) -> Any:
        if not isinstance(value, str) or shape.enum is not None:
            return value
        name = next((step for step in reversed(path) if isinstance(step, str)), "")
        guess = text_guess(value, name, text_is_wide=self.text_is_wide, text_is_odd=self.text_is_odd)
        if guess is None or not shape.accepts(guess.value) or (self.source.holds(value) and value in self.source.text):
            return value
        return self.propose(path, value, guess)

    def _coerced(self, value: Any, shape: Shape, path: Path) -> Any:
        if isinstance(value, Word) and not shape.is_typed:
            return self._untyped(value, path)
        guesses = scalar_guesses(value, shape, self.about(shape, path))
        if isinstance(value, Decimal) and (spelled := self.exponents.get(value)) and shape.accepts(spelled):
            guesses = [Guess(spelled, "a text that was written as a number", 0.9)]
        if path == self.partial and isinstance(value, Word) and (whole := _completed(value, shape)):
            guesses = [whole]
        guess = self._supported(guesses)
        if guess is None and shape.is_typed and shape.types & {"object", "array"}:
            return self._container(value, shape, path)
        if guess is None:
            self._gap(value, shape, path)
            return settled_words(value)
        return settled_words(self.propose(path, value, guess))

    def _supported(self, guesses: list[Guess]) -> Guess | None:
        """The best guess; where two are as good, the one that the source holds."""
        top = best(guesses)
        if top is None or top.confidence >= 0.8 or not self.source:
            return top
        held = {repr(guess.value): guess for guess in guesses if self.source.holds(guess.value)}
        if len(held) != 1:
            return top
        guess = next(iter(held.values()))
        return Guess(guess.value, f"{guess.reason}, as in the source", 0.85, guess.step)

    def _untyped(self, value: Word, path: Path) -> Any:
        literal = {"None": None, "True": True, "False": False, "TRUE": True, "FALSE": False, "NULL": None, "Null": None}
        if value in literal:
            return self.propose(path, value, Guess(literal[value], "a literal of another language", 0.9))
        return str(value)

    def _chosen(self, several: Several, shape: Shape, path: Path) -> Any:
        """One of the values that a name stands for, if the schema, the anchors or the source say which."""
        fitting = [value for value in several.values if self._would_fit(value, shape, path)]
        held = [value for value in several.values if self.source.holds(settled_words(value))]
        keys = self.anchors.at(path)
        known = [
            value
            for value in several.values
            if keys and key_guesses(settled_words(value), keys, shape, self.source, is_cut=False) is None
        ]
        for chosen, confidence in ((known, 0.8), (held, 0.85), (fitting, 0.7)):
            if len(chosen) == 1:
                self.propose(
                    path,
                    several.values[-1],
                    Guess(chosen[0], "one of the values of a name that stood twice", confidence),
                )
                if confidence < 0.8:
                    self.record.doubt(path, "the name stands for two different values")
                return chosen[0]
        self.record.doubt(path, "the name stands for two different values")
        return several.values[-1]

    def _would_fit(self, value: Any, shape: Shape, path: Path) -> bool:
        trial = self._trial()
        after = trial.settle(value, shape, path)
        return not trial.gaps and self.fitting.fits(after, shape)

    def _trial(self) -> Settler:
        return replace(self, record=self.record.fork(), gaps=[])

    def _alternative(self, value: Any, shape: Shape, path: Path) -> Any:
        """Settle with the alternative under which the value needs the fewest and surest edits."""
        best_rank: tuple[float, ...] = (-1.0,)
        chosen: tuple[Any, Settler] | None = None
        rival = False
        for index in range(min(len(shape.alternatives), MAX_ALTERNATIVES)):
            under = self.shapes.with_alternative(shape, index)
            trial = self._trial()
            after = trial.settle(value, under, path)
            fits = self.fitting.fits(after, under)
            rank = (
                float(fits),
                -float(len(trial.gaps) + len(trial.record.doubts)),
                round(trial.record.confidence, 2),
                -float(len(trial.record.edits)),
            )
            if chosen is not None and rank[:3] == best_rank[:3] and fits and not same(after, chosen[0]):
                rival = trial.record.edits != [] and chosen[1].record.edits != []
            if rank > best_rank:
                best_rank, chosen, rival = rank, (after, trial), rival and rank[:3] == best_rank[:3]
        if chosen is None:
            return settled_words(value)
        after, trial = chosen
        if rival:
            trial.record.doubt(path, "more than one of the schema's alternatives can be meant")
        self.record.join(trial.record)
        self.gaps += trial.gaps
        return after


def _completed(value: Word, shape: Shape) -> Guess | None:
    """A literal that was cut off: `tru`."""
    whole = [
        (text, literal)
        for text, literal in (("true", True), ("false", False), ("null", None))
        if text.startswith(value.lower())
    ]
    fitting = [literal for _, literal in whole if shape.accepts(literal)]
    return Guess(fitting[0], "a literal that was cut off", 0.85) if len(fitting) == 1 and value else None
