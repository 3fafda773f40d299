"""Which of a user's sentences are standing wishes. Patterns alone: the same text always gives the same, and why."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from services.cache.preferences import chinese, english
from services.cache.preferences.hostile import hostility
from stagemesh.runtime.kv_keys import netstrings

MAX_TEXT_CHARS = 4_000
MAX_SENTENCES = 20
MAX_WISHES = 8

_SENTENCE_ENDS = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])|\n+")
_HAN = re.compile("[㐀-鿿]")
_OPPOSITE = {"always": "never", "never": "always"}


@dataclass(frozen=True)
class Wish:
    """One standing wish, as it was said once."""

    text: str
    rule: str
    polarity: str
    normalized: str

    @property
    def wish_id(self) -> str:
        return _id(self.polarity, self.normalized)

    @property
    def opposite_id(self) -> str:
        """Of the wish that this one revokes."""
        return _id(_OPPOSITE[self.polarity], self.normalized)


def wishes(text: str, max_chars: int) -> list[Wish]:
    """The wishes in a message, each once; sentences that are hostile or longer than `max_chars` are none."""
    found: dict[str, Wish] = {}
    for sentence in sentences(text, max_chars):
        wish = recognize(sentence)
        if wish is not None and wish.wish_id not in found and not hostility(sentence):
            found[wish.wish_id] = wish
        if len(found) == MAX_WISHES:
            break
    return list(found.values())


def sentences(text: str, max_chars: int) -> Iterator[str]:
    """Those of at most `max_chars`, each in one line without invisible characters; bounded."""
    for part in _SENTENCE_ENDS.split(text[:MAX_TEXT_CHARS])[:MAX_SENTENCES]:
        sentence = one_line(part) if len(part) <= 2 * max_chars else ""
        if sentence and len(sentence) <= max_chars:
            yield sentence


def recognize(sentence: str) -> Wish | None:
    """The wish that one sentence is, if it is one."""
    language = chinese if _HAN.search(sentence) else english
    plain = unicodedata.normalize("NFKC", sentence).replace("’", "'")
    if not language.MARKS.search(plain) or not language.can_be_wish(plain):
        return None
    plain = plain.rstrip(" .!?;。！？；")
    for rule, polarity, pattern in language.RULES:
        if pattern.search(plain):
            normalized = language.normalized(plain)
            return Wish(sentence, rule, polarity, normalized) if normalized else None
    return None


def one_line(text: str) -> str:
    """Without control and invisible characters, white space collapsed."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    visible = "".join(" " if _is_space(char) else char for char in text if not _is_invisible(char))
    return " ".join(visible.split())


def _is_space(char: str) -> bool:
    return unicodedata.category(char) in {"Cc", "Zs", "Zl", "Zp"}


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in {"Cf", "Co", "Cs", "Cn"}


def _id(polarity: str, normalized: str) -> str:
    return hashlib.blake2b(netstrings(polarity.encode(), normalized.encode()), digest_size=8).hexdigest()
