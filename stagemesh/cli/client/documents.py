"""Documents on disk → what a sync sends: a folder of text and markdown files, or a file of JSON lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

from stagemesh.cli.exits import CommandError, Exit
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.knowledge import MAX_DOCUMENT_BYTES, MAX_TITLE_BYTES, KnowledgeDocument, check_document

SUFFIXES = frozenset({".md", ".markdown", ".txt"})


def read_source(source: Path) -> list[KnowledgeDocument]:
    """All documents of a folder or a `.jsonl` file. Raises CommandError with the file and line at fault."""
    documents: dict[str, KnowledgeDocument] = {}
    for where, document in _lines(source) if source.is_file() else _files(source):
        try:
            check_document(document)
        except InvalidRequest as error:
            raise CommandError(f"{where}: {error.message}", Exit.USAGE) from None
        if document.document_id in documents:
            raise CommandError(f"{where}: the ID {document.document_id!r} occurs twice", Exit.USAGE)
        documents[document.document_id] = document
    return list(documents.values())


def _files(folder: Path) -> Iterator[tuple[str, KnowledgeDocument]]:
    """A document's ID is its path below `folder`; its title is the first heading, else the file's name."""
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(parent) / name
            if path.suffix.lower() not in SUFFIXES or not path.is_file():
                continue
            text = _read(path)
            if text.strip():
                yield str(path), KnowledgeDocument(path.relative_to(folder).as_posix(), _title(path, text), text)


def _read(path: Path) -> str:
    if path.stat().st_size > MAX_DOCUMENT_BYTES:
        raise CommandError(f"{path} has more than {MAX_DOCUMENT_BYTES:,} bytes; split it", Exit.USAGE)
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} cannot be read: {error}", Exit.USAGE) from None


def _title(path: Path, text: str) -> str:
    heading = next((line.lstrip("#").strip() for line in text.splitlines() if line.startswith("#")), "")
    return (heading or path.stem).encode()[:MAX_TITLE_BYTES].decode(errors="ignore")


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
