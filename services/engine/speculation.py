"""Drafts without a draft model, where they pay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence as Seq

from services.engine.draft_policy import PROBE_INTERVAL, StepCost, can_pay, draft_lengths
from services.engine.draft_run import DraftRun
from services.engine.drafting import Fit
from services.engine.guesser import MIN_CHANCE, Guesser
from services.engine.modes import Mode
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


class Speculation:
    """Looks at every sequence before a step, and computes what it guesses where that makes the step yield more."""

    def __init__(self, max_draft_tokens: int) -> None:
        self._max_draft_tokens = max_draft_tokens
        self._guessers: dict[str, Guesser] = {}
        self._costs: dict[Mode | None, StepCost] = defaultdict(StepCost)
        self._num_refused: dict[Mode | None, int] = defaultdict(int)

    def add_drafts(self, items: Seq[WorkItem], fit: Fit) -> list[WorkItem]:
        by_mode: dict[Mode | None, list[WorkItem]] = defaultdict(list)  # each mode is a pass of its own
        for item in items:
            if item.samples:
                by_mode[item.sequence.mode].append(item)
        drafted: dict[str, WorkItem] = {}
        for mode, members in by_mode.items():
            for item, drafts in zip(members, self._drafts(mode, members), strict=True):
                if drafts:
                    drafted[item.sequence.sequence_id] = fit(item, drafts)
        return [drafted.get(item.sequence.sequence_id, item) for item in items] if drafted else list(items)

    def measured(self, runs: Seq[DraftRun], num_rows: int, seconds: float) -> None:
        modes = {run.sequence.mode for run in runs}
        if len(modes) == 1 and num_rows == sum(len(run.rows) for run in runs):  # else more than one thing was measured
            self._costs[modes.pop()].measured(num_rows, seconds)
        for run in runs:
            if (guesser := self._guessers.get(run.sequence.sequence_id)) is not None:
                guesser.saw(run.sequence.tokens[run.item.end :])

    def forget(self, sequence: Sequence) -> None:
        self._guessers.pop(sequence.sequence_id, None)

    def _drafts(self, mode: Mode | None, items: Seq[WorkItem]) -> list[Seq[int]]:
        cost = self._costs[mode].of
        probes = self._num_refused[mode] % PROBE_INTERVAL == PROBE_INTERVAL - 1  # the measured cost may be out of date
        self._num_refused[mode] += 1
        if not probes and not can_pay(len(items), self._max_draft_tokens, cost):
            return [()] * len(items)
        guessers = [self._look(item.sequence) for item in items]
        chances = [guesser.chances() if guesser else [] for guesser in guessers]
        likely = [own if own and own[0] >= MIN_CHANCE else () for own in chances]
        lengths = draft_lengths(likely, len(items), cost) if any(likely) else [0] * len(items)
        if any(lengths):
            self._num_refused[mode] = 0
        elif probes:
            lengths = [min(1, len(own)) for own in likely]
        return [
            guesser.guess.tokens[:length] if guesser else () for guesser, length in zip(guessers, lengths, strict=True)
        ]

    def _look(self, sequence: Sequence) -> Guesser | None:
        if not sequence.takes_drafts:
            return None
        guesser = self._guessers.setdefault(sequence.sequence_id, Guesser())
        try:
            guesser.look(sequence, self._max_draft_tokens)
        except Exception:
            log.exception("no guesses for a sequence", sequence_id=sequence.sequence_id)
            sequence.takes_drafts = False  # whether it fails without them, the next step shows
            return None
        return guesser
