"""What has been found out about an object so far."""

from __future__ import annotations

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
    proposals: list[Proposal] = field(default_factory=list)
    doubts: list[Doubt] = field(default_factory=list)

    def is_claimed(self, span: Span) -> bool:
        """Whether something there belongs to a field already."""
        return any(start < span[1] and span[0] < end for start, end in self.claimed)

    def confirm(self, known: Field, span: Span | None = None) -> None:
        self.confirmed.add(known)
        if span is not None:
            self.claimed[span] = known

    def propose(self, known: Field, place: Place, reason: str, confidence: float) -> None:
        self.proposals.append(Proposal(pointer=known.pointer, value=place.value, reason=reason, confidence=confidence))
        if confidence >= SURE:
            self.claimed[place.span] = known

    def doubt(self, pointer: str, reason: str) -> None:
        self.doubts.append(Doubt(pointer=pointer, reason=reason))
