"""Keys that a value equals but for characters that look alike: width, `О` of another script, 0 and O, case, hyphens."""

from __future__ import annotations

import re
from functools import lru_cache

from stagemesh.validation.anchors import Keys
from stagemesh.validation.forms import form_of

MAX_KEYS = 20_000
"""Larger sets are not compared this way."""
MAX_CHARS = 200
MAX_SETS = 8

_SCRIPTS = str.maketrans(
    "АВЕЅІЈКМНОРСТУХаеѕіјорсухΑΒΕΖΗΙΚΜΝΟΡΤΥΧο‐‑‒–—−|",
    "ABESIJKMHOPCTYXaesijopcyxABEZHIKMNOPTYXo------I",
)
_UNSEEN = re.compile(r"[\u200b-\u200f\u2060\ufeff\xad]+")
_SEPARATOR = re.compile(r"(?<=\w)(?:[ \-]|_)+(?=\w)")
_MARKS = re.compile(r"[\W_]+")
_ALIKE = (frozenset("Oo0"), frozenset("Il1"))
_FOLDED = str.maketrans("oil", "011")


@lru_cache(maxsize=MAX_SETS)
def _by_skeleton(keys: Keys) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key in dict.fromkeys(keys.some(len(keys))):
        found.setdefault(_skeleton(_plain(key)), []).append(key)
    return found


def keys_like(text: str, keys: Keys) -> list[str]:
    """All keys that could be meant by a value with look-alike characters; none of sets that are too large."""
    if len(keys) > MAX_KEYS or len(text) > MAX_CHARS:
        return []
    skeleton = _skeleton(_plain(text))
    return _by_skeleton(keys).get(skeleton, []) if skeleton else []


def looks_like(text: str, key: str) -> bool:
    """Whether each character of a value is the key's or looks like it, and no separator stands in another place."""
    value, other = _plain(text), _plain(key)
    places, others = _separated(value), _separated(other)
    bare, wanted = _bare(value), _bare(other)
    if not (places <= others or others <= places) or len(bare) != len(wanted):
        return False
    is_all_other = not any(one.casefold() == two.casefold() for one, two in zip(bare, wanted, strict=True))
    return not is_all_other and all(map(_is_like, bare, wanted))


def is_rival(text: str, key: str, near: str) -> bool:
    """Whether a value may as well mean `near`, which is an edit away from it, as the key that it looks like.

    It does not where the edit is at the only character that stands for another one: AB-1O3 is no AB-113.
    """
    value, other, rival = _bare(_plain(text)), _bare(_plain(key)), _bare(_plain(near))
    odd = [at for at, (one, two) in enumerate(zip(value, other, strict=True)) if one.casefold() != two.casefold()]
    if len(odd) != 1 or len(rival) != len(value):
        return True
    at = odd[0]
    return value[:at] + value[at + 1 :] != rival[:at] + rival[at + 1 :]


def _plain(text: str) -> str:
    return form_of(_UNSEEN.sub("", text)).translate(_SCRIPTS)


def _bare(plain: str) -> str:
    return _SEPARATOR.sub("", plain)


def _skeleton(plain: str) -> str:
    """What keys that could be taken for each other have in common; also those that marks alone tell apart."""
    return _MARKS.sub("", plain).casefold().translate(_FOLDED)


def _separated(plain: str) -> frozenset[int]:
    """Before which characters of the bare text separators stand."""
    places, gone = set(), 0
    for match in _SEPARATOR.finditer(plain):
        places.add(match.start() - gone)
        gone += len(match[0])
    return frozenset(places)


def _is_like(one: str, other: str) -> bool:
    return one.casefold() == other.casefold() or any(one in alike and other in alike for alike in _ALIKE)
