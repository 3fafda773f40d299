"""What has been found out about an object so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from services.corrector.content.evidence import Place, Span
from services.corrector.content.fields import Field
from services.corrector.proposals import Doubt, Proposal

SURE, LIKELY = 0.9, 0.6


@dataclass
class Judgement:
    filled: frozenset[str] = frozenset()
    """Pointers of values that an earlier step made or took from the source: that they stand there says nothing."""
    confirmed: set[Field] = field(default_factory=set)
    claimed: dict[Span, Field] = field(default_factory=dict)
    """Places that belong to confirmed or corrected fields."""
    contradicted: set[Field] = field(default_factory=set)
    """Fields with another value than the source has under their own label."""
    proposals: list[Proposal] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)
    speaks_against: Callable[[Field, Span], bool] = lambda known, span: False
    """Whether the source says at a place that it is not that field's."""

    def is_claimed(self, span: Span) -> bool:
        """Whether something there belongs to a field already."""
        return any(start < span[1] and span[0] < end for start, end in self.claimed)

    def confirm(self, known: Field, span: Span | None = None) -> bool:
        """Whether it could be: nothing speaks against the place."""
        if known in self.contradicted:
            return False
        if span is not None:
            if self.speaks_against(known, span):
                return False
            self.claimed[span] = known
        self.confirmed.add(known)
        return True

    def propose(self, known: Field, place: Place, reason: str, confidence: float) -> None:
        """Put what stands at a place in the field's; where something speaks against that, the value is doubted."""
        if self.speaks_against(known, place.span):
            self.doubt(known.pointer, "the source seems to speak of something else, or of a change, beside its value")
            return
        self.proposals.append(Proposal(pointer=known.pointer, value=place.value, reason=reason, confidence=confidence))
        if confidence >= SURE:
            self.claimed[place.span] = known

    def doubt(self, pointer: str, reason: str) -> None:
        self.doubts.append(Doubt(pointer=pointer, reason=reason))
