"""What the builder's process is given and gives back, in one folder: documents in a file, one line of JSON each way."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.runtime.knowledge import KnowledgeDocument

_LENGTH = struct.Struct("<I")
INDEX, DOCUMENTS, MARKS = "index", "documents", "shards.json"
"""Names in the job's folder; MARKS lies in the index folder: what the last sync saw of each shard."""
REFUSED = 65
"""The builder's exit code for documents that cannot be indexed; a line `{"refused": …}` says why."""


@dataclass(frozen=True, kw_only=True)
class Task:
    create: bool
    delete_missing: bool
    documents: int
    """In the base before."""
    wanted: dict[int, str]
    """Shard → the digest (hex) of what the caller has of it; empty where the caller has nothing."""


@dataclass(frozen=True, kw_only=True)
class Built:
    documents: int
    passages: int
    added: int
    changed: int
    removed: int
    shards_changed: int

    @property
    def differs(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def write_task(folder: Path, task: Task) -> None:
    (folder / "task.json").write_text(json.dumps(asdict(task)))


def read_task(folder: Path) -> Task:
    given = json.loads((folder / "task.json").read_text())
    return Task(**{**given, "wanted": {int(shard): digest for shard, digest in given["wanted"].items()}})


def append_documents(file: BinaryIO, batch: knowledge_pb2.SyncDocuments) -> None:
    data = batch.SerializeToString()
    file.write(_LENGTH.pack(len(data)) + data)


def read_documents(path: Path) -> Iterator[KnowledgeDocument]:
    with path.open("rb") as file:
        while head := file.read(_LENGTH.size):
            batch = knowledge_pb2.SyncDocuments.FromString(file.read(_LENGTH.unpack(head)[0]))
            for document in batch.documents:
                yield KnowledgeDocument(document.document_id, document.title, document.text)


@dataclass(frozen=True)
class Mark:
    """What the last sync of a shard left."""

    digest: str
    """Of the caller's documents in it, hex."""
    has_others: bool
    """The shard holds documents which that caller did not have."""


def read_marks(index: Path) -> dict[int, Mark]:
    path = index / MARKS
    if not path.exists():
        return {}
    return {int(shard): Mark(*mark) for shard, mark in json.loads(path.read_bytes()).items()}


def write_marks(index: Path, marks: dict[int, Mark]) -> None:
    rows = {shard: (mark.digest, mark.has_others) for shard, mark in sorted(marks.items())}
    fresh = index / f".{MARKS}"  # never in place: a file of an older version may be linked to the same bytes
    fresh.write_text(json.dumps(rows, separators=(",", ":")))
    fresh.replace(index / MARKS)
