"""Documents on disk → what a sync sends: a folder of text and markdown files, or a file of JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.knowledge import CONTROL, MAX_DOCUMENT_BYTES, MAX_TITLE_BYTES, KnowledgeDocument, check_document

SUFFIXES = frozenset({".md", ".markdown", ".txt"})
MAX_NAMED = 20
"""Files that a message names; of more it says how many."""


@dataclass(frozen=True)
class SourceDocuments:
    documents: list[KnowledgeDocument]
    outside: list[str] = field(default_factory=list)
    """Files that are links to what lies outside the folder; they are never read."""
    unreadable: list[str] = field(default_factory=list)
    """Files that were left out because they are not UTF-8 or cannot be opened."""


def read_source(source: Path, *, skip_unreadable: bool = False) -> SourceDocuments:
    """All documents of a folder or a `.jsonl` file. Raises CommandError with the files or the line at fault."""
    found = SourceDocuments([])
    documents: dict[str, KnowledgeDocument] = {}
    for where, document in _lines(source) if source.is_file() else _files(source, found):
        try:
            check_document(document)
        except InvalidRequest as error:
            raise CommandError(f"{printable(where)}: {error.message}", Exit.USAGE) from None
        if document.document_id in documents:
            raise CommandError(f"{where}: the ID {document.document_id!r} occurs twice", Exit.USAGE)
        documents[document.document_id] = document
    if found.unreadable and not skip_unreadable:
        raise CommandError(
            f"{named(found.unreadable)} cannot be read as UTF-8; convert to UTF-8 (e.g. `iconv -t utf-8`), or leave "
            "such files out with --skip-unreadable",
            Exit.USAGE,
        )
    found.documents.extend(documents.values())
    return found


def named(files: Sequence[str]) -> str:
    """`3 files (a, b, c)`, of many only the first."""
    more = f" and {len(files) - MAX_NAMED:,} more" if len(files) > MAX_NAMED else ""
    return f"{len(files):,} {'file' if len(files) == 1 else 'files'} ({', '.join(files[:MAX_NAMED])}{more})"


def printable(text: str) -> str:
    """`text` on one line, with what a terminal would obey or cannot show escaped."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _files(folder: Path, found: SourceDocuments) -> Iterator[tuple[str, KnowledgeDocument]]:
    """A document's ID is its path below `folder`; its title is the first heading, else the file's name."""
    root = folder.resolve()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            if path.suffix.lower() not in SUFFIXES or not path.is_file():
                continue
            relative = path.relative_to(folder).as_posix()
            if not path.resolve().is_relative_to(root):
                found.outside.append(printable(relative))
                continue
            text = _read(path)
            if text is None:
                found.unreadable.append(printable(relative))
            elif text.strip():
                yield str(path), KnowledgeDocument(relative, _title(path, text), text)


def _read(path: Path) -> str | None:
    """None for a file that is not UTF-8 or cannot be opened."""
    try:
        if path.stat().st_size > MAX_DOCUMENT_BYTES:
            raise CommandError(
                f"{printable(str(path))} has more than {MAX_DOCUMENT_BYTES:,} bytes; split it", Exit.USAGE
            )
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _title(path: Path, text: str) -> str:
    heading = next((line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")), "")
    title = " ".join(CONTROL.sub(" ", heading or path.stem).split())
    return title.encode()[:MAX_TITLE_BYTES].decode(errors="ignore")


def _lines(path: Path) -> Iterator[tuple[str, KnowledgeDocument]]:
    """`{"id": …, "text": …, "title"?: …}` a line."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", _parse(line, f"{path}:{number}")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error}", Exit.USAGE) from None


def _parse(line: bytes, where: str) -> KnowledgeDocument:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{where}: not JSON: {error}", Exit.USAGE) from None
    fields = given if isinstance(given, dict) else {}
    document_id, text, title = fields.get("id"), fields.get("text"), fields.get("title", "")
    if not isinstance(document_id, str) or not isinstance(text, str) or not isinstance(title, str):
        form = '{"id": "…", "text": "…", "title": "…"}, the title optional'
        raise CommandError(f"{where}: a line must be an object {form}", Exit.USAGE)
    try:
        f"{document_id}{title}{text}".encode()
    except UnicodeEncodeError:
        raise CommandError(f"{where}: half of a surrogate pair is no text", Exit.USAGE) from None
    return KnowledgeDocument(document_id, title, text)
