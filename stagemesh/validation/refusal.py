"""What cannot be enforced at all, as opposed to a text that fails."""

from __future__ import annotations

TOO_LARGE = "CONSTRAINT_TOO_LARGE"
"""The reason where a constraint is not even looked at."""


class Refusal(Exception):
    """The constraint, the anchors or the size of the text are unusable; says why and where."""

    def __init__(self, reason: str, message: str, *, field: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.field = field
