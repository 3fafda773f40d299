"""Index folders on this machine: listing, linking, reading and writing their files. Blocking; called in threads."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from services.cache.knowledge.manifest import PART_BYTES, IndexFile

_CHANGING = frozenset({"meta.json", ".managed.json", "shards.json"})
"""All other files are written once under a name of their own."""


def list_files(folder: Path, known: Iterable[IndexFile] = ()) -> tuple[IndexFile, ...]:
    """The files of an index; the digest of a file that `known` has under its name and size is taken from there."""
    digests = {(file.name, file.size): file.sha256 for file in known if file.name not in _CHANGING}
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix == ".lock" or not path.is_file():
            continue
        size = path.stat().st_size
        found.append(IndexFile(path.name, size, digests.get((path.name, size)) or _sha256(path)))
    return tuple(found)


def link_known(source: Path, have: Iterable[IndexFile], target: Path, want: Iterable[IndexFile]) -> list[IndexFile]:
    """Give `target` the files that `source` has already; returns those that are left to fetch."""
    names = {file.sha256: file.name for file in have}
    left = []
    for file in want:
        name = names.get(file.sha256)
        if name is None:
            left.append(file)
        else:
            os.link(source / name, target / file.name)
    return left


def is_whole(path: Path, file: IndexFile) -> bool:
    return path.stat().st_size == file.size and _sha256(path) == file.sha256


def read_part(path: Path, number: int) -> bytes:
    with path.open("rb") as source:
        source.seek(number * PART_BYTES)
        return source.read(PART_BYTES)


def remove(folder: Path) -> None:
    """Remove a folder that this process made; open indexes keep their files."""
    shutil.rmtree(folder, ignore_errors=True)


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
