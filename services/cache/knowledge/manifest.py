"""What Redis says of a base: which files make up its index now."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

PART_BYTES = 262_144
"""Of a file in one Redis value: small, so that no single command holds up the ledger."""


@dataclass(frozen=True)
class IndexFile:
    name: str
    size: int
    sha256: str

    @property
    def num_parts(self) -> int:
        return max(1, -(-self.size // PART_BYTES))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    version: int
    """Rises with each change; unique over the life of a name, also after it was dropped."""
    documents: int
    passages: int
    updated_ms: int
    analyzer: str
    files: tuple[IndexFile, ...]

    @property
    def num_bytes(self) -> int:
        return sum(file.size for file in self.files)


def pack(manifest: Manifest) -> dict[str, str | int]:
    """The fields of its hash."""
    return {
        "version": manifest.version,
        "documents": manifest.documents,
        "passages": manifest.passages,
        "updated_ms": manifest.updated_ms,
        "analyzer": manifest.analyzer,
        "files": json.dumps([(file.name, file.size, file.sha256) for file in manifest.files]),
    }


def unpack(fields: dict[bytes, bytes]) -> Manifest | None:
    """None where there is no base."""
    if not fields:
        return None
    return Manifest(
        version=int(fields[b"version"]),
        documents=int(fields[b"documents"]),
        passages=int(fields[b"passages"]),
        updated_ms=int(fields[b"updated_ms"]),
        analyzer=fields[b"analyzer"].decode(),
        files=tuple(IndexFile(*file) for file in json.loads(fields[b"files"])),
    )


def missing(files: Iterable[IndexFile], there: Iterable[IndexFile]) -> list[IndexFile]:
    """One of `files` for each content that none of `there` has."""
    known = {file.sha256 for file in there}
    return list({file.sha256: file for file in files if file.sha256 not in known}.values())
