"""Where guesses at the next tokens come from, as the step loop sees it."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Protocol

from services.engine.draft_run import DraftRun
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence

Fit = Callable[[WorkItem, Seq[int]], WorkItem]
"""Gives an item as many drafts as there is room for, with their pages."""


class Drafting(Protocol):
    """Says what to guess before a step and hears what came of it. A wrong guess costs time, never the text."""

    def add_drafts(self, items: Seq[WorkItem], fit: Fit) -> list[WorkItem]:
        """The step's items, with drafts where they pay."""

    def measured(self, runs: Seq[DraftRun], num_rows: int, seconds: float) -> None:
        """A step of `num_rows` rows has ended; `runs` say which drafts were right."""

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended."""


class NoDrafting:
    """Every step computes what is there and nothing else."""

    def add_drafts(self, items: Seq[WorkItem], fit: Fit) -> list[WorkItem]:
        return list(items)

    def measured(self, runs: Seq[DraftRun], num_rows: int, seconds: float) -> None:
        pass

    def forget(self, sequence: Sequence) -> None:
        pass
