"""Whether one word is another one with a slip of the hand, or another word altogether."""

from __future__ import annotations

import re

from rapidfuzz.distance import OSA

MIN_WORD_LETTERS = 6
MIN_ID_CHARS = 5
NEGATIONS = frozenset("已未不非无有否没免勿")
"""Characters with which a word says the contrary."""
_PREFIXES = ("un", "in", "im", "il", "ir", "non", "dis", "a", "not")
_ID = re.compile(r"(?=.*[a-z])(?=.*\d)[a-z\d][a-z\d\-_./#]*", re.IGNORECASE | re.ASCII)
_VERSION = re.compile(r"v?\d+(?:\.\d+)+", re.IGNORECASE | re.ASCII)
_LATIN = re.compile(r"[a-z][a-z _'\-]*", re.IGNORECASE | re.ASCII)


def is_slip(text: str, word: str, *, is_name: bool = False) -> bool:
    """A Latin word of six letters with one letter doubled, dropped, inserted or transposed, and no other replaced.

    The first letter counts, and a last one that is more or less makes a plural; at the end of a name two letters
    that are exchanged make another name as well: Christina, Christian.
    """
    one, other = text.casefold(), word.casefold()
    if not _LATIN.fullmatch(one) or not _LATIN.fullmatch(other) or OSA.distance(one, other, score_cutoff=1) != 1:
        return False
    if min(len(one), len(other)) < MIN_WORD_LETTERS or one[0] != other[0]:
        return False
    if len(one) != len(other):
        return one[-1] == other[-1] and _ends_alike(one, other)
    return sorted(one) == sorted(other) and (not is_name or one[-1] == other[-1])


def _ends_alike(one: str, other: str) -> bool:
    """Whether the letter that is more stands before the last one: not `boss` for `bos`."""
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    return longer[:-1] != shorter


def is_id_slip(text: str, key: str) -> bool:
    """An identifier of letters and digits with one character another, more or less; not a version."""
    if min(len(text), len(key)) < MIN_ID_CHARS or _VERSION.fullmatch(key) or _VERSION.fullmatch(text):
        return False
    is_id = _ID.fullmatch(key) is not None and text.isascii() and " " not in text
    return is_id and OSA.distance(text.casefold(), key.casefold(), score_cutoff=1) <= 1


def is_contrary(one: str, other: str) -> bool:
    """Whether a negation is all that tells two words from each other: 未发货 and 已发货, valid and invalid."""
    one, other = one.casefold(), other.casefold()
    longer, shorter = (one, other) if len(one) > len(other) else (other, one)
    if any(longer == f"{prefix}{shorter}" for prefix in _PREFIXES):
        return True
    return bool((set(one) ^ set(other)) & NEGATIONS)


def is_denied_in(text: str, word: str) -> bool:
    """Whether a text holds a word right after a negation: 未付款, not valid."""
    before = text.casefold().partition(word.casefold())[0].rstrip(" -_")
    return before.endswith((*"未不非无没勿", "not", "non", "no")) or before in _PREFIXES
