"""What the form steps do to a value, one edit after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from services.corrector.form.values import Several
from services.corrector.proposals import ABSENT
from stagemesh.validation.pointer import Path


@dataclass(frozen=True)
class Guess:
    """A value that may have been meant."""

    value: Any
    reason: str
    confidence: float
    step: str = "schema"


@dataclass(frozen=True)
class Edit:
    path: Path
    """Where, in the value as it is after all edits before this one."""
    before: Any
    after: Any
    """ABSENT on either side for a member that is added or removed."""
    reason: str
    confidence: float
    step: str
    applied: bool = True


@dataclass
class Record:
    """Edits in order, and what could not be decided."""

    min_confidence: float
    edits: list[Edit] = field(default_factory=list)
    doubts: dict[Path, str] = field(default_factory=dict)

    def propose(self, path: Path, before: Any, guess: Guess) -> Any:
        """The value to go on with: the guess, or what was there if the guess is too unsure to be applied."""
        applied = guess.confidence >= self.min_confidence
        self.edits.append(Edit(path, before, guess.value, guess.reason, guess.confidence, guess.step, applied))
        return guess.value if applied else before

    def doubt(self, path: Path, reason: str) -> None:
        self.doubts.setdefault(path, reason)

    def fork(self) -> Record:
        """An empty record to try something with."""
        return Record(self.min_confidence)

    def join(self, other: Record) -> None:
        self.edits += other.edits
        for path, reason in other.doubts.items():
            self.doubts.setdefault(path, reason)

    @property
    def confidence(self) -> float:
        return min((edit.confidence for edit in self.edits), default=1.0)


def best(guesses: list[Guess]) -> Guess | None:
    """The surest guess; less sure where another one is as good but says something else."""
    if not guesses:
        return None
    top = max(guesses, key=lambda guess: guess.confidence)
    rivals = [g for g in guesses if g.confidence >= top.confidence - 0.1 and repr(g.value) != repr(top.value)]
    if not rivals:
        return top
    return Guess(top.value, f"{top.reason}, or {rivals[0].value!r}"[:300], min(top.confidence, 0.55), top.step)


def settled_words(value: Any) -> Any:
    """The value without bare words and rival values, where no schema says more."""
    if isinstance(value, dict):
        return {key: settled_words(item) for key, item in value.items()}
    if isinstance(value, list):
        return [settled_words(item) for item in value]
    if isinstance(value, Several):
        return settled_words(value.values[-1])
    return str(value) if isinstance(value, str) else value


__all__ = ["ABSENT", "Edit", "Guess", "Record", "best", "settled_words"]
