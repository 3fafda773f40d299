"""Scoring of one given continuation: how likely each of its tokens is after those before it.

A scored sequence is the prompt and the continuation without its last token, computed like any prompt; it draws nothing.
Its rows of logits from the prompt's last position on are wanted, each for one token: that which follows in the
continuation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from services.engine.logprobs import TokenLogprobs
from stagemesh.runtime.errors import Internal

MAX_STEP_ROWS = 128
"""Rows of logits for scores in one step; they take memory, and time of those who decode beside them."""
MAX_TOGETHER = 64
"""Scored sequences that run at a time, beside those that decode."""


class Logprobs(Protocol):
    """What turns logits into log-probabilities: the sampler."""

    def logprobs(self, row: npt.NDArray[np.float32], token: int, num_top: int) -> TokenLogprobs: ...


@dataclass(eq=False)
class Scoring:
    """What is wanted of a scored sequence, and what has come of it. Read `values` when the sequence has ended."""

    first: int
    """The position whose logits give the first target: the prompt's last."""
    targets: tuple[int, ...]
    """The continuation."""
    values: list[float] = field(init=False)
    """[targets] natural logarithms; NaN until computed"""

    def __post_init__(self) -> None:
        self.values = [math.nan] * len(self.targets)

    def num_rows(self, start: int, end: int) -> int:
        """How many rows of logits are wanted of the positions [start, end)."""
        return max(0, end - max(start, self.first))

    def fitting_end(self, start: int, end: int, max_rows: int) -> int:
        """The largest end up to which no more rows are wanted."""
        return min(end, max(start, self.first) + max_rows)

    def take(self, start: int, rows: npt.NDArray[np.float32], sampler: Logprobs) -> None:
        """Note what a step from position `start` on says of the targets; a preempted sequence says it twice.

        rows: [num_rows, V] logits. Raises Internal where they are not finite.
        """
        for at, row in enumerate(rows, max(start, self.first) - self.first):
            self.values[at] = value = sampler.logprobs(row, self.targets[at], 0).logprob
            if not math.isfinite(value):
                raise Internal("NON_FINITE_LOGITS", "the model produced values that are not finite at this position")


def scored(targets: Seq[int], num_prompt: int) -> Scoring:
    """Scoring of the continuation `targets` after a prompt of `num_prompt` tokens."""
    assert targets, "nothing to score"
    assert num_prompt > 0, "the first token follows nothing"
    return Scoring(num_prompt - 1, tuple(targets))
