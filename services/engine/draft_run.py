"""What a step yields for one sequence: the token after its last one, and more while guesses turn out right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence


@dataclass(frozen=True)
class DraftRun:
    """The sampled rows of a work item, taken one after the other as if each had been a step of its own.

    Row 0 follows the item's last token, row i the i-th draft; it counts only while all tokens before it were chosen as
    drafted. So what was drafted never changes what is chosen. How far it has come shows in the sequence's tokens.
    """

    item: WorkItem
    rows: npt.NDArray[np.float32]
    """[1 + drafts, V] logits"""

    @property
    def sequence(self) -> Sequence:
        return self.item.sequence

    @property
    def num_taken(self) -> int:
        """Tokens that the sequence got from this item."""
        return len(self.sequence.tokens) - self.item.end

    @property
    def num_accepted(self) -> int:
        """Drafts that are tokens now and have KV: all that was taken but the last, which is computed next."""
        return max(0, self.num_taken - 1)

    @property
    def row(self) -> npt.NDArray[np.float32]:
        """Logits of the next token, [V]."""
        row: npt.NDArray[np.float32] = self.rows[self.num_taken]
        return row

    def goes_on(self) -> bool:
        """Whether the token taken last was the one drafted, so that the next row counts."""
        num_taken = self.num_taken
        if not 0 < num_taken < len(self.rows) or self.sequence.tokens[-1] != self.item.drafts[num_taken - 1]:
            return False
        return self._has_logits(num_taken)

    def _has_logits(self, at: int) -> bool:
        """Whether the row has the logits of all tokens that may be chosen by now.

        Its mask was told before the guesses were tokens, and what a grammar forces depends on the tokens left as well.
        """
        bits = self.item.masks[at].bits if self.item.masks else None
        constraint = self.sequence.constraint
        return bits is None or constraint is None or constraint.is_within(bits)
