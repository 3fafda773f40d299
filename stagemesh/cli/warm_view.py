"""What `stagemesh cache warm` shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stagemesh.api.cache.v1.learning_pb2 import WarmProgress, WarmReport
from stagemesh.cli import console

COUNTS = ("dialogues", "users", "turns", "already", "computed", "failed", "computed_tokens", "problem")


@contextmanager
def showing_progress() -> Iterator[Callable[[WarmProgress], None]]:
    """A line that is written over on a terminal; silence elsewhere."""
    terminal = console.err.is_terminal

    def show(progress: WarmProgress) -> None:
        if terminal:
            prefixes = f", {progress.prefixes:,} of {progress.of_prefixes:,} beginnings" if progress.of_prefixes else ""
            console.err.print(f"Learned from {progress.dialogues:,} conversations{prefixes}", end="\r")

    yield show
    if terminal:
        console.err.print(" " * 78, end="\r")


def report_json(report: WarmReport) -> dict[str, Any]:
    topics = [
        {"words": list(topic.words), "conversations": topic.conversations, "prefixes": topic.prefixes}
        for topic in report.topics
    ]
    return {**{name: getattr(report, name) for name in COUNTS}, "topics": topics}


def report_lines(report: WarmReport, seconds: float) -> list[str]:
    failed = f", {report.failed:,} failed ({report.problem})" if report.failed else ""
    return [
        f"{report.dialogues:,} conversations of {report.users:,} users, {report.turns:,} turns, in {seconds:.1f} s",
        *(
            f"  {', '.join(topic.words[:5])}: {topic.conversations:,} conversations, {topic.prefixes:,} kept ready"
            for topic in report.topics
        ),
        f"{report.already + report.computed:,} beginnings are ready: {report.already:,} were stored, "
        f"{report.computed:,} were computed ({report.computed_tokens:,} tokens){failed}",
    ]
