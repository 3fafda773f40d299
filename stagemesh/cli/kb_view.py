"""What `stagemesh kb` shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.cli import console
from stagemesh.cli.client.documents import SourceDocuments, named, printable

COUNTS = (
    "version",
    "documents",
    "passages",
    "added",
    "changed",
    "removed",
    "shards_compared",
    "shards_changed",
    "stored_bytes",
    "new_bytes",
)


@contextmanager
def showing_progress() -> Iterator[Callable[[int, int], None]]:
    """A line that is written over on a terminal; silence elsewhere."""
    terminal = console.err.is_terminal

    def show(done: int, of: int) -> None:
        if terminal:
            console.err.print(f"Compared {done:,} of {of:,} documents", end="\r")

    yield show
    if terminal:
        console.err.print(" " * 60, end="\r")


def report_json(report: knowledge_pb2.SyncReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in COUNTS}


def report_lines(name: str, report: knowledge_pb2.SyncReport, warmed: int, seconds: float) -> list[str]:
    lines = [
        f"{name}: {report.documents:,} documents in {report.passages:,} passages",
        f"  {report.added:,} added, {report.changed:,} changed, {report.removed:,} removed "
        f"({report.shards_changed:,} of {report.shards_compared:,} compared shards) in {seconds:.1f} s",
        f"  {report.stored_bytes / 1e6:.1f} MB stored, {report.new_bytes / 1e6:.1f} MB of them new",
    ]
    return [*lines, f"  {warmed} questions asked again"] if warmed else lines


def left_out_json(source: SourceDocuments) -> dict[str, Any]:
    return {"skipped_outside": source.outside, "skipped_unreadable": source.unreadable}


def left_out_lines(source: SourceDocuments) -> list[str]:
    lines = [f"  left out, since they link to outside the folder: {named(source.outside)}"] if source.outside else []
    if source.unreadable:
        lines.append(f"  left out, since they are not UTF-8: {named(source.unreadable)}")
    return lines


def base_json(base: knowledge_pb2.KnowledgeBase) -> dict[str, Any]:
    return {
        "name": base.knowledge,
        "version": base.version,
        "documents": base.documents,
        "passages": base.passages,
        "stored_bytes": base.stored_bytes,
        "updated_at_s": base.updated_at.seconds,
    }


def base_line(base: knowledge_pb2.KnowledgeBase) -> str:
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(base.updated_at.seconds))
    return (
        f"{base.knowledge}  {base.documents:,} documents, {base.passages:,} passages, "
        f"{base.stored_bytes / 1e6:.1f} MB, of {when}"
    )


def passage_json(passage: knowledge_pb2.Passage) -> dict[str, Any]:
    return {
        "passage_id": passage.passage_id,
        "document_id": passage.document_id,
        "title": passage.title,
        "text": passage.text,
        "score": round(passage.score, 3),
        "coverage": round(passage.coverage, 3),
    }


def passage_lines(passage: knowledge_pb2.Passage) -> list[str]:
    title, document_id = printable(passage.title or passage.document_id), printable(passage.document_id)
    return [
        f"{title}  ({document_id}, score {passage.score:.1f}, {passage.coverage:.0%} of the question)",
        *(f"  {line}" for line in passage.text.splitlines()),
        "",
    ]
