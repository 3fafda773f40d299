"""A shadow pair: what the caller got and what the candidate would have said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, kw_only=True)
class Side:
    """One of the two answers."""

    model: str = ""
    revision: str = ""
    text: str = ""
    num_tokens: int = 0
    finish_reason: str = ""
    """`stop`, `length` …; empty when there is no answer."""
    total_us: int = 0
    """Stable: the caller's whole wait. Candidate: from the call to the end of the answer."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One row. There is exactly one per tenant and request ID."""

    tenant_id: str
    request_id: str
    answered_at: datetime
    stable: Side
    candidate: Side = Side()
    similarity: float | None = None
    """1 for equal texts, 0 for nothing in common; None without a candidate answer."""
    first_divergent_token: int | None = None
    """Position, in the candidate's tokens, of the first difference; None where all are equal or there is an error."""
    same_tokenizer: bool = True
    corrected: bool = False
    """The stable text was changed after generation, so a difference may not be the model's."""
    error: str = ""
    """Stable reason why there is no candidate answer."""
    attempts: int = 1
