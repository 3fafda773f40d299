"""Precise answers at low cost: the turbo weights draft, one pass of the precise weights checks all drafts at once.

The check computes KV for every position that the drafting touched, so after a step pages hold what the precise weights
made of the tokens before, and nothing else. Each token is chosen from precise logits; the text is that of plain
decoding with the precise weights, token for token.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import replace

from services.engine.draft_policy import PROBE_INTERVAL, Chance, StepCost, even_length
from services.engine.draft_run import DraftRun
from services.engine.drafting import Drafting, Fit
from services.engine.ending import end_tokens
from services.engine.modes import Mode
from services.engine.runner import Runner
from services.engine.sampler import Draw, Sampled
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence
from services.engine.stages import Probe
from services.engine.vocabulary import Vocabulary
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

CHECKED: Mode = "precise"
DRAFTS: Mode = "turbo"
PRIOR_AGREEMENT = 0.9
"""How often the weights that draft choose the token of those that check, before anything was seen."""
PLACEHOLDER = 0
"""Stands for a draft while room is made for it."""


class ProgressiveDrafting:
    """Drafts for decoding sequences of mode `precise` for which there are no cheaper drafts."""

    def __init__(self, others: Drafting, runner: Runner, vocabulary: Vocabulary, max_draft_tokens: int) -> None:
        self._others = others
        self._runner = runner
        self._vocabulary = vocabulary
        self._max_draft_tokens = max_draft_tokens
        self._agreement: dict[str, Chance] = {}
        self._drafted: set[str] = set()
        """Sequences whose drafts in this step are the turbo weights'."""
        self._draft_cost, self._check_cost = StepCost(), StepCost()
        self._num_refused = 0

    def add_drafts(self, items: Seq[WorkItem], fit: Fit) -> list[WorkItem]:
        self._drafted.clear()
        planned = self._others.add_drafts(items, fit)
        mine = [item for item in planned if _wants_drafts(item)]
        if not mine or not (length := self._length(mine)):
            return planned
        fitted = [fit(item, [PLACEHOLDER] * length) for item in mine]
        drafted = {item.sequence.sequence_id: item for item in self._draft(fitted)}
        self._drafted.update(drafted)
        return [drafted.get(item.sequence.sequence_id, item) for item in planned]

    def measured(self, runs: Seq[DraftRun], num_rows: int, seconds: float) -> None:
        self._others.measured(runs, num_rows, seconds)
        checked = [run for run in runs if run.sequence.mode == CHECKED]
        if checked and num_rows == sum(len(run.rows) for run in checked):  # else other work is in the time
            self._check_cost.measured(num_rows, seconds)
        for run in checked:
            if run.sequence.sequence_id not in self._drafted:  # guesses of others say nothing of these weights
                continue
            taken = run.sequence.tokens[run.item.end :]
            for token, draft in zip(taken, run.item.drafts, strict=False):
                self._chance(run.sequence).saw(token == draft)

    def forget(self, sequence: Sequence) -> None:
        self._others.forget(sequence)
        self._agreement.pop(sequence.sequence_id, None)

    def _chance(self, sequence: Sequence) -> Chance:
        return self._agreement.setdefault(sequence.sequence_id, Chance(PRIOR_AGREEMENT))

    def _length(self, items: Seq[WorkItem]) -> int:
        """How many tokens to draft for each; now and then one, to see whether more would pay by now.

        Weights that check may be as quick as those that draft: a step without drafts and one with a single draft say
        so before more are made.
        """
        if not self._check_cost.knows(len(items)):
            return 0
        draft_s = self._draft_cost.seconds(len(items))
        if not draft_s:
            return 1
        chances = [self._chance(item.sequence).value for item in items]
        length = even_length(chances, draft_s, self._check_cost.seconds, self._max_draft_tokens)
        self._num_refused = 0 if length else self._num_refused + 1
        return length or int(self._num_refused % PROBE_INTERVAL == 0)

    def _draft(self, items: Seq[WorkItem]) -> list[WorkItem]:
        """The items with drafts, as many as there is room for; with none if drafting fails."""
        try:
            with _ahead([item.sequence for item in items]):
                active = list(items)
                while active := [item for item in active if _num_ahead(item) < len(item.drafts)]:
                    active = self._draft_one(active)
                return [replace(item, drafts=tuple(item.sequence.tokens[item.end :])) for item in items]
        except Exception:
            log.exception("drafting failed", num_sequences=len(items))
            return [replace(item, drafts=()) for item in items]

    def _draft_one(self, items: Seq[WorkItem]) -> list[WorkItem]:
        """Append a token to each sequence, chosen as if the logits were right; gives those that can go on."""
        started_s = time.monotonic()
        rows = self._runner.run([WorkItem.last(item.sequence) for item in items], Probe(), DRAFTS)
        ends = [end_tokens(item.sequence, self._vocabulary) for item in items]
        draws = [
            Draw(row, item.sequence, end, wants_logprobs=False)
            for row, item, end in zip(rows, items, ends, strict=True)
        ]
        going_on = []
        for item, end, chosen in zip(items, ends, self._runner.sampler.sample_all(draws), strict=True):
            if isinstance(chosen, Sampled):
                item.sequence.tokens.append(chosen.token)
                if chosen.token not in end:
                    if item.sequence.constraint is not None:
                        item.sequence.constraint.accept(chosen.token)
                    going_on.append(item)
        self._draft_cost.measured(len(items), time.monotonic() - started_s)
        return going_on


def _wants_drafts(item: WorkItem) -> bool:
    sequence = item.sequence
    is_decoding = item.samples and item.num_tokens == 1
    return is_decoding and not item.drafts and sequence.mode == CHECKED and sequence.takes_drafts


def _num_ahead(item: WorkItem) -> int:
    return len(item.sequence.tokens) - item.end


@contextmanager
def _ahead(sequences: Seq[Sequence]) -> Iterator[None]:
    """Within, tokens can be appended to the sequences and taken by their grammars; afterwards all is as before."""
    before = [(sequence, len(sequence.tokens), sequence.constraint) for sequence in sequences]
    try:
        for sequence in sequences:
            sequence.constraint = None if sequence.constraint is None else sequence.constraint.fork()
        yield
    finally:
        for sequence, num_tokens, constraint in before:
            del sequence.tokens[num_tokens:]
            sequence.constraint = constraint
