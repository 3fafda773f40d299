"""Standing wishes in English: which sentences are one, and what two of them have in common."""

from __future__ import annotations

import re
from collections.abc import Iterable

_NOW_ON = r"(?:from now on|from here on|in (?:the )?future|going forward|by default|every time|each time|as a rule)"
_ALWAYS = rf"(?:always|{_NOW_ON})"
_POLITE = r"(?:(?:please|pls|kindly|and|but|so|also|ok|okay|hi|hello)[, ]+)*"
_YOU = (
    r"(?:(?:can|could|would|will) you|you (?:should|must|can|may|have to|need to)"
    r"|i(?: would|'d|) (?:want|need|like|prefer|expect|ask) you to|make sure (?:to|that you)|be sure to|remember to)"
)
_I_WANT = r"(?:i|we)(?: would|'d)?(?: really| always| generally| only)* (?:want|need|like|prefer|expect|insist on)"
_DO = (
    r"(?:send|use|give|write|answer|reply|respond|speak|talk|call|address|keep|make|show|include|add|issue|provide"
    r"|deliver|ship|charge|format|translate|avoid|stick|round|sort|book|choose|put|print|quote|start|end)"
)

RULES: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (name, polarity, re.compile(f"^{_POLITE}{pattern}", re.IGNORECASE))
    for name, polarity, pattern in (
        ("en-never", "never", rf"(?:{_NOW_ON},? )?(?:never|don'?t ever|do not ever) (?!mind)\S"),
        ("en-never", "never", rf"{_YOU} (?:please )?never "),
        ("en-never", "never", r"(?:i|we) never (?:want|need|wish) "),
        ("en-never", "never", rf"(?:{_NOW_ON},? )(?:don'?t|do not|no) "),
        (
            "en-never",
            "never",
            rf"(?:don'?t|do not|stop|no|(?:i|we) (?:don'?t|do not) want) .*\b(?:again|any ?more|ever|{_NOW_ON})$",
        ),
        ("en-always", "always", rf"{_ALWAYS},? (?:please )?(?!the same|i\b|we\b|you\b|it\b|they\b|he\b|she\b)\S"),
        ("en-always", "always", rf"{_ALWAYS},? {_I_WANT} "),
        ("en-always", "always", rf"{_YOU} (?:please )?{_ALWAYS} "),
        ("en-always", "always", r"(?:i|we)(?: would|'d)? always (?:want|need|like|prefer|expect) "),
        ("en-always", "always", rf"{_I_WANT} .*\b{_ALWAYS}$"),
        ("en-always", "always", rf"{_DO} .*\b{_ALWAYS}$"),
        ("en-always", "always", r".*\b(?:should|must|has to|have to|needs to) always (?:be|come|have|use) "),
        ("en-prefer", "always", r"(?:i|we)(?: would|'d)?(?: really| much| generally| always)* prefer "),
    )
)
"""Name, polarity, and what a sentence must begin with. Facts ("I always get an error") fit none of them."""

MARKS = re.compile(
    rf"\b(?:always|never|ever|prefer|again|any ?more|{_NOW_ON})\b",
    re.IGNORECASE,
)
"""A sentence without any of these is no wish, which spares most of them the rules."""

_ASKS = re.compile(rf"^{_POLITE}(?:can|could|would|will) you\b", re.IGNORECASE)
_EMPTY = (
    "a again all also always am an and any anymore are as at be but by can choose could default deliver do don dont "
    "each ever every expect for from future generally get give going forward have hello here hi i if in include insist "
    "is issue it keep kindly like ll m make may me more much must my need never no not now of on only ought our please "
    "pls prefer provide put really receive remember rule send should show so sure t that the them these this time to "
    "us use want was we will wish with would you your"
)
_EMPTY_WORDS = frozenset(_EMPTY.split())


def can_be_wish(sentence: str) -> bool:
    """A question is none, unless it asks for something to be done."""
    return not sentence.rstrip().endswith("?") or bool(_ASKS.match(sentence))


def normalized(sentence: str) -> str:
    """The words that carry the wish: folded, in the singular, sorted; so "Please always send me electronic invoices"
    and "I always want electronic invoices" are the same."""
    words = re.findall(r"[^\W_]+", sentence.casefold())
    return " ".join(sorted(set(_singular(word for word in words if word not in _EMPTY_WORDS))))


def _singular(words: Iterable[str]) -> list[str]:
    return [word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word for word in words]
