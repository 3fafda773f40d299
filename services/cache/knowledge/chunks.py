"""A document → passages: whole paragraphs where they fit, else sentences, else pieces."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

from stagemesh.runtime.knowledge import KnowledgeDocument
from stagemesh.runtime.kv_keys import netstrings

MAX_WIDTH = 800
"""Of a passage, in columns: a Han character counts three, as it costs about as many tokens as three letters."""

_PARAGRAPHS = re.compile(r"\n\s*\n")
_SENTENCES = re.compile(r"(?<=[.!?。！？；\n])\s*")
_WIDE = re.compile("[ᄀ-ᇿ⺀-꓏가-힣豈-﫿！-｠]")


@dataclass(frozen=True)
class Chunk:
    passage_id: str
    """Follows from the document's ID and the text alone."""
    text: str


def chunks(document: KnowledgeDocument) -> Iterator[Chunk]:
    """The passages of a document in order; a text that occurs twice in it is one passage."""
    seen: set[str] = set()
    for text in _packed(_pieces(document.text)):
        digest = hashlib.blake2b(netstrings(document.document_id.encode(), text.encode()), digest_size=8)
        passage_id = digest.hexdigest()
        if passage_id not in seen:
            seen.add(passage_id)
            yield Chunk(passage_id, text)


def width(text: str) -> int:
    return len(text) + 2 * len(_WIDE.findall(text))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    """`(what joins it to the text before, piece)`, no piece wider than MAX_WIDTH."""
    for paragraph in _PARAGRAPHS.split(text):
        paragraph = paragraph.strip()
        if width(paragraph) <= MAX_WIDTH:
            yield "\n\n", paragraph
            continue
        joint = "\n\n"
        for sentence in filter(None, (part.strip() for part in _SENTENCES.split(paragraph))):
            for piece in _cut(sentence):
                yield joint, piece
                joint = " "


def _cut(sentence: str) -> Iterator[str]:
    step = MAX_WIDTH if width(sentence) == len(sentence) else MAX_WIDTH // 3
    for start in range(0, len(sentence), step):
        yield sentence[start : start + step]


def _packed(pieces: Iterator[tuple[str, str]]) -> Iterator[str]:
    """Neighbours together as long as they fit."""
    text, taken = "", 0
    for joint, piece in pieces:
        size = width(piece)
        if text and taken + size > MAX_WIDTH:
            yield text
            text, taken = "", 0
        text, taken = (f"{text}{joint}{piece}", taken + len(joint) + size) if text else (piece, size)
    if text:
        yield text
