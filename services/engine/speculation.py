"""Drafts without a draft model, where they pay."""

from __future__ import annotations

from collections.abc import Sequence as Seq

from services.engine.config import SpeculationConfig
from services.engine.draft_policy import PROBE_INTERVAL, StepCost, draft_lengths
from services.engine.draft_run import DraftRun
from services.engine.drafting import Drafting, Fit, NoDrafting
from services.engine.guesser import MIN_CHANCE, Guesser
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence


def make_drafting(config: SpeculationConfig) -> Drafting:
    return NoDrafting() if config.method == "off" else Speculation(config.max_draft_tokens)


class Speculation:
    """Looks at every sequence before a step, and computes what it guesses where that makes the step yield more."""

    def __init__(self, max_draft_tokens: int) -> None:
        self._max_draft_tokens = max_draft_tokens
        self._guessers: dict[str, Guesser] = {}
        self._cost = StepCost()
        self._num_refused = 0

    def add_drafts(self, items: Seq[WorkItem], fit: Fit) -> list[WorkItem]:
        guessers = [self._look(item.sequence) if item.samples else None for item in items]
        num_rows = sum(item.samples for item in items)
        chances = [guesser.chances() if guesser else [] for guesser in guessers]
        lengths = self._lengths(chances, num_rows)
        return [
            fit(item, guesser.guess.tokens[:length]) if guesser and length else item
            for item, guesser, length in zip(items, guessers, lengths, strict=True)
        ]

    def measured(self, runs: Seq[DraftRun], num_rows: int, seconds: float) -> None:
        if num_rows == sum(len(run.rows) for run in runs):  # with prompts in it, a step says nothing about drafts
            self._cost.measured(num_rows, seconds)
        for run in runs:
            if (guesser := self._guessers.get(run.sequence.sequence_id)) is not None:
                guesser.saw(run.sequence.tokens[run.item.end :])

    def forget(self, sequence: Sequence) -> None:
        self._guessers.pop(sequence.sequence_id, None)

    def _look(self, sequence: Sequence) -> Guesser | None:
        if not sequence.takes_drafts:
            return None
        guesser = self._guessers.setdefault(sequence.sequence_id, Guesser())
        guesser.look(sequence, self._max_draft_tokens)
        return guesser

    def _lengths(self, chances: Seq[Seq[float]], num_rows: int) -> list[int]:
        likely = [own if own and own[0] >= MIN_CHANCE else () for own in chances]
        if not any(likely):
            return [0] * len(chances)
        lengths = draft_lengths(likely, num_rows, self._cost.of)
        if any(lengths):
            self._num_refused = 0
        else:
            self._num_refused += 1
            if self._num_refused % PROBE_INTERVAL == 0:  # the measured cost may be out of date
                lengths = [min(1, len(own)) for own in likely]
        return lengths
