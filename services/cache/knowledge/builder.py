"""`python -m services.cache.knowledge.builder FOLDER`: index what changed, in a process of its own.

Cutting and indexing documents takes processor time, which the cache service must not take from the calls of sessions.
Lines of JSON on standard output: `{"done": …}` as it goes, then one `{"built": …}` or `{"refused": …}`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

import tantivy

from services.cache.knowledge.index import DOCUMENT, digests_in, entries, open_index
from services.cache.knowledge.job import (
    DOCUMENTS,
    INDEX,
    REFUSED,
    Built,
    Mark,
    Task,
    read_documents,
    read_marks,
    read_task,
    write_marks,
)
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.knowledge import KnowledgeDocument, check_document

HEAP_BYTES = 64_000_000
PROGRESS_EVERY = 1_000


def build(folder: Path) -> Built:
    """Bring the index in `folder` to what the task's documents say of its wanted shards. Raises InvalidRequest."""
    task = read_task(folder)
    index = open_index(folder / INDEX, create=task.create)
    changes = _Changes(index, task)
    for number, document in enumerate(read_documents(folder / DOCUMENTS), start=1):
        changes.take(document)
        if number % PROGRESS_EVERY == 0:
            _say(done=number)
    marks = read_marks(folder / INDEX) | changes.finish()
    write_marks(folder / INDEX, {shard: mark for shard, mark in marks.items() if mark.digest or mark.has_others})
    index.reload()
    return Built(
        documents=task.documents + changes.added - changes.removed,
        passages=index.searcher().num_docs,
        added=changes.added,
        changed=changes.changed,
        removed=changes.removed,
        shards_changed=len(changes.shards),
    )


class _Changes:
    """Compares documents with the index and writes those that differ."""

    def __init__(self, index: tantivy.Index, task: Task) -> None:
        self._task = task
        self._writer = index.writer(HEAP_BYTES, num_threads=1)
        searcher = index.searcher()
        self._stored = {shard: digests_in(searcher, index, shard) for shard in task.wanted}
        self._seen: set[str] = set()
        self.shards: set[int] = set()
        self.added = self.changed = self.removed = 0

    def take(self, document: KnowledgeDocument) -> None:
        check_document(document)
        if document.document_id in self._seen or document.shard not in self._stored:
            raise InvalidRequest(
                "INVALID_DOCUMENT",
                f"the document {document.document_id[:80]!r} was sent twice, or lies in a shard that was not wanted",
                field="documents",
            )
        self._seen.add(document.document_id)
        digest = self._stored[document.shard].pop(document.document_id, None)
        if digest == document.digest():
            return
        if digest is None:
            self.added += 1
        else:
            self.changed += 1
            self._writer.delete_documents_by_term(DOCUMENT, document.document_id)
        for entry in entries(document):
            self._writer.add_document(entry)
        self.shards.add(document.shard)

    def finish(self) -> dict[int, Mark]:
        """Remove what the caller no longer has, commit, and give the marks of the wanted shards."""
        if self._task.delete_missing:
            for shard, stored in self._stored.items():
                for document_id in stored:
                    self._writer.delete_documents_by_term(DOCUMENT, document_id)
                    self.removed += 1
                    self.shards.add(shard)
                stored.clear()
        if self.shards:
            self._writer.commit()
        self._writer.wait_merging_threads()
        return {shard: Mark(digest, bool(self._stored[shard])) for shard, digest in self._task.wanted.items()}


def _say(**facts: object) -> None:
    print(json.dumps(facts), flush=True)  # noqa: T201  the line is for the process that started this one


def main() -> None:
    try:
        built = build(Path(sys.argv[1]))
    except InvalidRequest as error:
        _say(refused=error.message)
        raise SystemExit(REFUSED) from None
    _say(built=asdict(built))


if __name__ == "__main__":
    main()
