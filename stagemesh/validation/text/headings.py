"""Which lines of a text begin a clause: 第十二条, Article 12, 1.2.3, and the plain 2. and 二、."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from stagemesh.validation.forms import form_of
from stagemesh.validation.numerals.chinese import NUMERALS, chinese_number
from stagemesh.validation.numerals.english import english_number, roman_number
from stagemesh.validation.text.lines import Line

CHINESE = ("编", "章", "节", "条", "款", "项")
ENGLISH = ("part", "chapter", "article", "section", "clause", "schedule", "exhibit", "annex", "appendix")
RANKS = {
    **{kind: rank for rank, kind in enumerate(CHINESE)},
    "part": 0,
    "chapter": 1,
    "article": 2,
    "section": 3,
    "clause": 4,
    "schedule": 0,
    "exhibit": 0,
    "annex": 0,
    "appendix": 0,
}
"""Lower ones contain higher ones; a new one lets the numbers below begin anew."""
MAX_NUMBER = 9_999
_MARKS = r"[ \t\u3000]*+(?:#{1,6}[ \t]++)?(?:\*\*|__)?[ \t]*+"
_DOTTED = r"[0-9]{1,3}(?:\.[0-9]{1,3}){1,5}"
_CHINESE = re.compile(
    rf"{_MARKS}第[ ]?(?P<n>{_DOTTED}|[0-9０-９]{{1,4}}|[{NUMERALS}]{{1,12}})[ ]?"
    rf"(?P<kind>[{''.join(CHINESE)}])(?P<rest>.*)"
)
_SPACED = re.compile(rf"[ \t\u3000]*+第(?:[0-9０-９]{{1,4}}|[{NUMERALS}]{{1,12}})[{''.join(CHINESE)}][ \t\u3000]+\S")
"""Nobody writes a space after a number that is referred to, so it begins a clause wherever its line stands."""
_REFERS = re.compile(r"\s*(?:的|所|之|规定|约定|至|到|和|及|与|或|、|，|,|第|中|项|款|列|内)")
_ENGLISH = re.compile(
    rf"{_MARKS}(?P<kind>{'|'.join(ENGLISH)})[ \t]+"
    rf"(?P<n>{_DOTTED}|[0-9]{{1,4}}|[IVXLC]{{1,8}}|[A-Za-z]+(?:-[a-z]+)?)(?P<rest>.*)",
    re.IGNORECASE,
)
_TITLE = re.compile(r"(?:\*\*|__)?(?:\s*$|[.:)：。、—–-]+(?:\s|\*|$)|[ \t]*[—–-]+[ \t]|\s+[\"“(\[A-Z*\u4e00-\u9fff])")
_DECIMAL = re.compile(rf"{_MARKS}(?P<n>{_DOTTED})[.)、]?(?:\*\*)?[ \t\u3000]+(?P<rest>.*)")
_DECIMAL_REST = re.compile(r"[\"“(\[*_A-Z\u4e00-\u9fff]")
_UNIT = re.compile(r"(?:[KMGT]?i?[BWVAJ]|[KMG]?Hz|[KMG]bps|USD|EUR|GBP|CNY|RMB|[万亿]?元|万|亿|米|吨|[℃°]C?)\b")
"""What is measured, as in `1.5 GB`, is no clause."""
_PLAIN = re.compile(
    rf"[ \t]*+(?:[*|>][ \t]+)?{_MARKS}(?P<n>[0-9]{{1,3}})[.、．](?:[ \t\u3000]+|(?=[\u4e00-\u9fff]))(?P<rest>.*)"
)
_IDEOGRAPH = re.compile(rf"{_MARKS}(?P<n>[{NUMERALS}]{{1,5}})、(?P<rest>.*)")
_ENDS = re.compile(r"[.;:!?。；：！？”\"】）)*_]\s*$")


@dataclass(frozen=True)
class Heading:
    line: int
    kind: str
    """Of CHINESE or ENGLISH, or `decimal`, `plain`, `、`."""
    number: tuple[int, ...]
    written: str
    """As it stands in the text: `第十二条`, `Article 12`, `1.2`."""


def headings(lines: Sequence[Line]) -> list[Heading]:
    found: list[Heading] = []
    before_ends, next_plain = True, 0
    for line in lines:
        begins = line.after_break or before_ends or _SPACED.match(line.text)
        heading = _heading(line) if begins else _next_plain(line, next_plain)
        if heading is not None:
            found.append(heading)
            next_plain = heading.number[0] + 1 if heading.kind == "plain" else next_plain
        before_ends = heading is not None or bool(_ENDS.search(line.text[-20:]))
    return found


def _next_plain(line: Line, next_number: int) -> Heading | None:
    """An item that goes on with a list, or begins one, though the line before has not ended: `… and,`."""
    match = _PLAIN.match(line.text[:300])
    number = int(match["n"]) if match else 0
    return _made(line, "plain", number, f"{number}.") if number and number in (1, next_number) else None


def _heading(line: Line) -> Heading | None:
    text = line.text[:300]
    if (match := _CHINESE.match(text)) and not _REFERS.match(match["rest"]):
        if "." in match["n"]:
            return _decimal(line, match["n"])
        number = _chinese(match["n"])
        return _made(line, match["kind"], number, f"第{match['n']}{match['kind']}")
    if (match := _ENGLISH.match(text)) and (match["kind"][0].isupper()) and _TITLE.match(match["rest"]):
        if "." in match["n"]:
            return _decimal(line, match["n"])
        number = english(match["n"])
        return _made(line, match["kind"].lower(), number, f"{match['kind']} {match['n']}")
    if (match := _DECIMAL.match(text)) and _DECIMAL_REST.match(match["rest"]) and not _UNIT.match(match["rest"]):
        return _decimal(line, match["n"])
    if match := _PLAIN.match(text):
        return _made(line, "plain", int(match["n"]), f"{match['n']}.")
    if match := _IDEOGRAPH.match(text):
        return _made(line, "、", chinese_number(match["n"]), f"{match['n']}、")
    return None


def _decimal(line: Line, written: str) -> Heading:
    return Heading(line.number, "decimal", tuple(int(part) for part in written.split(".")), written)


def english(text: str) -> int | None:
    """12, XII, Twelve."""
    if text.isdecimal():
        return int(text)
    return roman_number(text) if text.isupper() and roman_number(text) else english_number(text)


def _chinese(text: str) -> int | None:
    digits = form_of(text)
    return int(digits) if digits.isdecimal() else chinese_number(text)


def _made(line: Line, kind: str, number: int | None, written: str) -> Heading | None:
    return Heading(line.number, kind, (number,), written) if number is not None and number <= MAX_NUMBER else None
