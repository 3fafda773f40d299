"""Tokens that must be right are chosen by the precise weights, also where standard ones compute the answer.

A step of a `standard` sequence whose likeliest tokens are sensitive is computed again with the precise weights, on the
same KV, and the token is chosen from what they say. The KV of the position is then written by the standard weights once
more. So which tokens are checked and what comes of it follows from the tokens before alone: not from the batch, from
drafts, or from where an answer was cut and continued.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path

from services.engine.config import ProgressivePrecisionConfig
from services.engine.draft_run import DraftRun
from services.engine.logits import Row
from services.engine.modes import Mode
from services.engine.runner import Runner
from services.engine.scheduler import WorkItem
from services.engine.sensitive_tokens import SensitiveTokens
from services.engine.sequence import Sequence
from services.engine.stages import Probe
from services.engine.vocabulary import Vocabulary

CHECKED: Mode = "standard"
CHECKS: Mode = "precise"


def make_checks(config: ProgressivePrecisionConfig, runner: Runner, vocabulary: Vocabulary) -> SensitiveChecks | None:
    """Checks where the engine holds standard and precise weights."""
    if not {CHECKED, CHECKS} <= set(runner.modes):
        return None
    file = Path(config.sensitive_file) if config.sensitive_file else None
    return SensitiveChecks(runner, SensitiveTokens(vocabulary, config.sensitive_tokens, file, config.min_margin))


class SensitiveChecks:
    def __init__(self, runner: Runner, tokens: SensitiveTokens) -> None:
        self._runner = runner
        self._tokens = tokens
        self.num_checked = 0
        """Positions computed again."""

    def refresh(self) -> None:
        """Call between steps."""
        self._tokens.refresh()

    def rows(self, runs: Seq[DraftRun]) -> list[Row]:
        """The logits that each run's next token is chosen from."""
        rows = [run.row for run in runs]
        chosen = [
            at for at, run in enumerate(runs) if self.concerns(run.sequence) and self._tokens.is_sensitive(run.row)
        ]
        if chosen:
            items = [WorkItem.last(runs[at].sequence) for at in chosen]
            for at, row in zip(chosen, self._runner.run(items, Probe(), CHECKS), strict=True):
                rows[at] = row
            self._runner.run(items, Probe(), CHECKED)  # for the KV
            self.num_checked += len(chosen)
        return rows

    def concerns(self, sequence: Sequence) -> bool:
        """Whether this sequence's sensitive tokens are checked."""
        return sequence.mode == CHECKED
