"""What a text refers to exists: clauses of itself, numbered notes, IDs of a reference set."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stagemesh.validation.anchor_match import Found, Match
from stagemesh.validation.forms import form_of
from stagemesh.validation.numerals.chinese import NUMERALS, chinese_number
from stagemesh.validation.numerals.english import roman_number
from stagemesh.validation.rules.places import invalid
from stagemesh.validation.sentences import listed, quoted
from stagemesh.validation.text.headings import Heading
from stagemesh.validation.text.lines import MAX_FOUND, Line, issue_at
from stagemesh.validation.verdict import Issue

MAX_KNOWN = 5_000
MAX_SHAPES = 64
"""Different forms of IDs, the most common ones."""
MAX_SHAPE_CHARS = 64
MAX_RANGE = 50
_N = r"[0-9]{1,4}(?:\.[0-9]{1,3}){0,5}|[IVXLC]{1,8}\b"
_JOIN = r"\s?(?:,|and|or|to|through|–|-|&)\s?(?:and\s|or\s)?"
_ENGLISH = re.compile(
    rf"\b(?P<kind>Article|Section|Clause|article|section|clause)(?P<plural>s)?\s(?P<list>(?:{_N})(?:{_JOIN}(?:{_N})){{0,20}})"
    r"(?P<after>(?:\([a-z0-9]{1,4}\)){0,3}\s(?:of|in)\s(?:the|that|an?|its|such|[A-Z][A-Za-z]*)\b)?(?![A-Za-z])"
)
_OURS = re.compile(r"\s(?:of|in)\s(?:the|this)\s(?:present\s)?(?:agreement|contract|document|lease)\b", re.IGNORECASE)
_ABBREVIATED = re.compile(r"\s(?:[A-Z]{2,}\b|U\.S\.)")
"""Article 6 GDPR"""
_NAMED_BEFORE = re.compile(r"\b[A-Z]{3,}\s$")
_LAW_BEFORE = re.compile(r"(?:》|法|法典|条例|规则|办法|规定|细则|准则|解释)[^。；，,、]{0,8}$")
_AND = re.compile(r"\s?(?:、|和|及|以及|与|或|或者|至|，|,)\s?(?:者)?")
_CHINESE = re.compile(rf"第 ?(?P<n>[0-9０-９]{{1,4}}|[{NUMERALS}]{{1,12}}) ?条")
_NOTE = re.compile(r"\[(?P<list>[0-9]{1,3}(?:\s?[,，–-]\s?[0-9]{1,3}){0,20})\](?![(\[:])")
_ENTRY = re.compile(r"[ \t]*\[(?P<n>[0-9]{1,4})\]:?[ \t]+\S")
_CODE = re.compile(r"`[^`]*+`")

Known = Callable[[str], Found]
"""What a reference set says about a text."""


class Citations:
    """`{"clauses", "known_clauses", "notes", "num_notes"}`; `known` and `some_keys` stand for the keys of `ids`."""

    def __init__(self, fields: dict[str, Any], field: str, known: Known | None, some_keys: Sequence[str]) -> None:
        self._clauses = bool(fields.get("clauses", False))
        given = fields.get("known_clauses", ())
        if len(given) > MAX_KNOWN:
            raise invalid(f"{field}.known_clauses", f"give at most {MAX_KNOWN} clauses")
        self._given = frozenset(number for number in map(_clause, given) if number) if given else None
        self._notes = bool(fields.get("notes", False))
        self._num_notes = int(fields.get("num_notes", 0))
        self._known = known
        self._ids = _pattern(some_keys) if known else None

    def issues(self, lines: Sequence[Line], found: Sequence[Heading], pointer: str) -> list[Issue]:
        issues: list[Issue] = []
        if self._clauses:
            issues += self._clause_issues(lines, found, pointer)
        if self._notes or self._num_notes:
            issues += self._note_issues(lines, pointer)
        if self._known is not None and self._ids is not None:
            issues += self._id_issues(lines, pointer, self._known, self._ids)
        return issues

    def _clause_issues(self, lines: Sequence[Line], found: Sequence[Heading], pointer: str) -> list[Issue]:
        known = {kind: {_dotted(h) for h in found if h.kind == kind} for kind in {h.kind for h in found}}
        several_lists = sum(heading.kind == "plain" and heading.number == (1,) for heading in found) > 1
        begins = {heading.line for heading in found}
        issues: list[Issue] = []
        for line in lines:
            for kind, number, written in _references(line, line.number in begins):
                if not self._exists(kind, number, known, several_lists):
                    message = f"{written} is referred to, but there is no such clause; name one that exists"
                    issues.append(issue_at(pointer, "citation.clause", line.number, message))
                    if len(issues) == MAX_FOUND:
                        return issues
        return issues

    def _exists(self, kind: str, number: str, known: dict[str, set[str]], several_lists: bool) -> bool:
        """Whether there is that clause, or nothing by which to tell."""
        if self._given is not None:
            return number in self._given
        same, plain, decimals = (known.get(name, set()) for name in (kind, "plain", "decimal"))
        if kind == "条":
            return number in same or not same
        if "." in number:
            return number in decimals or not decimals
        others = plain | {dotted.split(".")[0] for dotted in decimals}
        if number in same or number in others:
            return True
        # Without clauses of that kind, a list may be what is meant, where there is only one.
        return not same and (several_lists or not others)

    def _note_issues(self, lines: Sequence[Line], pointer: str) -> list[Issue]:
        entries = {int(match["n"]) for line in lines if (match := _ENTRY.match(line.text))}
        issues: list[Issue] = []
        for line in lines:
            entry = _ENTRY.match(line.text)
            text = _CODE.sub("", line.text)
            for match in _NOTE.finditer(text, entry.end() - 1 if entry and text == line.text else 0):
                for number in _numbers(match["list"]):
                    if number in entries or 1 <= number <= self._num_notes:
                        continue
                    message = f"[{number}] is cited, but there is no note with that number; add it, or cite another one"
                    issues.append(issue_at(pointer, "citation.note", line.number, message))
                    if len(issues) == MAX_FOUND:
                        return issues
        return issues

    def _id_issues(self, lines: Sequence[Line], pointer: str, known: Known, ids: re.Pattern[str]) -> list[Issue]:
        issues: list[Issue] = []
        seen: dict[str, Found] = {}
        for line in lines:
            for match in ids.finditer(line.text):
                token = match[0]
                if token not in seen:
                    if len(seen) == MAX_KNOWN:
                        message = f"more than {MAX_KNOWN} different IDs; those from here on were not compared"
                        return [*issues, issue_at(pointer, "rule.limit", line.number, message)]
                    seen[token] = known(token)
                near = seen[token].keys
                if seen[token].match is not Match.EXACT:
                    hint = f"; {listed(near)} {'is' if len(near) == 1 else 'are'} near it" if near else ""
                    message = f"{quoted(token)} is not in its reference set{hint}"
                    issues.append(issue_at(pointer, "citation.id", line.number, message))
                    if len(issues) == MAX_FOUND:
                        return issues
        return issues


def shape_of(key: str) -> str:
    """The form of an ID, its runs as `A` and `0`: `INV-2024-0017` → `A-0-0`; empty for what has no digit."""
    shape = re.sub(r"[0-9]+", "0", re.sub(r"[A-Za-z]+", "A", key))
    return shape if "0" in shape and len(shape) <= MAX_SHAPE_CHARS else ""


def _pattern(keys: Sequence[str]) -> re.Pattern[str] | None:
    """What has the form of one of the keys; None where none of them has a digit."""
    shapes = Counter(shape for key in keys if (shape := shape_of(form_of(key))))
    runs = {"A": "[A-Za-z]++", "0": "[0-9]++"}
    longest_first = sorted((shape for shape, _ in shapes.most_common(MAX_SHAPES)), key=len, reverse=True)
    forms = ["".join(runs.get(char, re.escape(char)) for char in shape) for shape in longest_first]
    return re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(forms)})(?![A-Za-z0-9_-])") if forms else None


def _references(line: Line, begins_clause: bool) -> Iterator[tuple[str, str, str]]:
    """Kind, number and spelling of what a line refers to; the number that it begins with is its own."""
    own_end = len(line.text) - len(line.text.lstrip(" \t\u3000#*_")) if begins_clause else -1
    yield from _english_references(line.text, own_end)
    yield from _chinese_references(line.text, own_end)


def _english_references(text: str, own_end: int) -> Iterator[tuple[str, str, str]]:
    for match in _ENGLISH.finditer(text):
        if match.start() == own_end or _NAMED_BEFORE.search(text[max(0, match.start() - 8) : match.start()]):
            continue
        rest = text[match.end("list") : match.end("list") + 60]
        if (match["after"] and not _OURS.match(rest)) or _ABBREVIATED.match(rest):
            continue  # of another document
        kind = match["kind"].lower()
        for number in _listed(match["list"]):
            yield kind, number, f"{match['kind'].capitalize()} {number}"


def _chinese_references(text: str, own_end: int) -> Iterator[tuple[str, str, str]]:
    other_end = -1
    for match in _CHINESE.finditer(text):
        before = text[max(0, match.start() - 12) : match.start()]
        goes_on = other_end >= 0 and _AND.fullmatch(text[other_end : match.start()])
        if goes_on or _LAW_BEFORE.search(before):
            other_end = match.end()  # of another law, and what is listed after it
            continue
        other_end = -1
        digits = form_of(match["n"])
        value = int(digits) if digits.isdecimal() else chinese_number(match["n"])
        if match.start() != own_end and value is not None:
            yield "条", str(value), match[0]


def _listed(text: str) -> Iterator[str]:
    """`3, 4 and 6` gives three numbers, `5 to 7` gives three, too."""
    parts = re.split(r"\s?(,|and|or|to|through|–|-|&)\s?", text)
    before, joint = "", ""
    for part in parts:
        if part in {",", "and", "or", "to", "through", "–", "-", "&"}:
            joint = part if part in {"to", "through", "–", "-"} or joint not in {"to", "through", "–", "-"} else joint
            continue
        number = _clause(part.strip())
        if not number:
            continue
        if joint in {"to", "through", "–", "-"}:
            if not (before.isdecimal() and number.isdecimal() and 0 < int(number) - int(before) <= MAX_RANGE):
                return  # no range: 252.227-7013
            yield from map(str, range(int(before) + 1, int(number)))
        yield number
        before, joint = number, ""


def _numbers(text: str) -> Iterator[int]:
    before = 0
    for joint, digits in re.findall(r"([,，–-]?)\s?([0-9]{1,3})", text):
        number = int(digits)
        if joint in {"–", "-"} and before:
            yield from range(before + 1, min(number, before + MAX_RANGE))
        yield number
        before = number


def _clause(text: str) -> str:
    """`Article 14`, `第十四条`, `14`, `XIV`, `3.2` → `14`, `3.2`; empty for what names no clause."""
    form = form_of(text)
    if match := re.search(r"[0-9]{1,4}(?:\.[0-9]{1,3})*", form):
        return match[0]
    if match := re.search(f"[{NUMERALS}]+", form):
        return str(chinese_number(match[0]) or "")
    return str(roman_number(form.split()[-1]) or "") if form.split() else ""


def _dotted(heading: Heading) -> str:
    return ".".join(map(str, heading.number))
