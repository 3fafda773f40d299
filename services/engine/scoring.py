"""Scoring of given tokens: how likely each is after those before it.

A scored sequence is computed like any prompt and draws nothing. Its last rows of logits are wanted, each for some
tokens: those that may follow there. Many continuations of one prompt are a trunk, the prompt, whose last row is wanted
for the first token of each, and branches, which go on from the trunk's pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from services.engine.logprobs import TokenLogprobs
from stagemesh.runtime.errors import Internal

if TYPE_CHECKING:
    from services.engine.sequence import Sequence

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
    """The first position whose logits are wanted; all later ones are as well."""
    targets: Seq[Seq[int]]
    """[rows] tokens whose likelihood each row gives"""
    branches: Seq[Sequence] = ()
    """They begin with all of this sequence's tokens, and run from its end on."""
    has_branched: bool = False
    steps: set[int] = field(default_factory=set)
    """Of the engine, that computed a part of it."""
    values: list[list[float]] = field(init=False)
    """[rows] natural logarithms, as many as targets; none until computed"""

    def __post_init__(self) -> None:
        self.values = [[] for _ in self.targets]

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
            self.values[at] = row_logprobs(row, self.targets[at], sampler)


def row_logprobs(row: npt.NDArray[np.float32], tokens: Seq[int], sampler: Logprobs) -> list[float]:
    """Log-softmax of `row` [V] at `tokens`, each value the same whichever others are asked for.

    Raises Internal where it is not finite.
    """
    best = int(row.argmax())
    normalizer = float(row[best]) - sampler.logprobs(row, best, 0).logprob
    values = [float(row[token]) - normalizer for token in tokens]
    if not all(map(math.isfinite, values)):
        raise Internal("NON_FINITE_LOGITS", "the model produced values that are not finite at this position")
    return values
