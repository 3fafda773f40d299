"""What a prose source mentions: numbers, dates, codes, addresses, names; where, and in which words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from services.corrector.content.numbers import Run, runs
from services.corrector.form.dates import find_dates

MAX_MENTIONS = 600


class Kind(Enum):
    NUMBER = "number"
    DATE = "date"
    CODE = "code"
    EMAIL = "email"
    PHONE = "phone"
    NAME = "name"
    TIME = "time"


@dataclass(frozen=True)
class Mention:
    kind: Kind
    start: int
    end: int
    """Of the folded source."""
    text: str
    number: Decimal | None = None
    """None also for a number that cannot be read in one sure way."""
    date: str = ""
    """ISO, where the text can be read as one date only."""
    unit: str = ""
    """What follows a number, in small letters: `kg`, `%`, `个月`."""
    currency: str = ""
    is_word: bool = False
    """A number in words, which says little by itself: two of the nine."""

    @property
    def is_unread(self) -> bool:
        """Whether it is a number that cannot be read in one sure way."""
        return self.kind is Kind.NUMBER and self.number is None


_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}")
_URL = re.compile(r"https?://[^\s<>\"'，。；]{1,300}")
_PHONE = re.compile(
    r"\+\d[\d ()-]{5,18}\d|\+\d{1,3}[ -]\d{2,5}(?!\d)|"
    r"(?<![\d-])0\d{1,4}[ -]\d{3,4}[ -]?\d{3,5}(?![\d-])|\(\d{2,4}\) ?\d{3,4}[ -]?\d{3,4}|"
    r"(?<!\d)1[3-9]\d{9}(?!\d)|(?<![\d-])\d{3}-\d{3}-\d{4}(?![\d-])"
)
_CODE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{1,24}(?:[-_/.#][A-Za-z0-9]{1,24}){0,6}(?![A-Za-z0-9])")
_GROUPED = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]{2,4}\d{0,2} )?\d{3,4}(?: \d{2,4}){2,8}(?![A-Za-z0-9])")
"""A long code in groups."""
_TIME = re.compile(r"(?<![\d:])\d{1,2}:\d{2}(?::\d{2})?(?![\d:])")
_MEASURE = re.compile(r"\d+(?:\.\d+)?[A-Za-z]{1,3}\d?")
_WORDS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
}
_WORD_NUMBER = re.compile(r"\b(" + "|".join(_WORDS) + r")\b", re.IGNORECASE)
_CHINESE = {"一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9, "十": 10}
_CHINESE_NUMBER = re.compile(
    r"(?<![\u4e00-\u9fff第])([一两二三四五六七八九十])(?=[个件台套箱盒份人名位次页间辆部把张批])|"
    r"(?<=[共订购买了有])([一两二三四五六七八九十])(?=[个件台套箱盒份人名位次页间辆部把张批])"
)
_WORD = re.compile(r"[^\W\d_][\w'’&-]*")
_SENTENCE_END = re.compile(r"(?:^|[.!?:;\n)\]•*>-]|[。！？；：])\s*[\"“(]?$")
_OPENERS_WORDS = (
    "a an the this that these those it its he she they we you i my our your his her their there here please dear "
    "hello hi hey thanks thank regards sincerely best kind on in at by for from to of with without within after "
    "before"
    " since until when while if as and but or also however therefore because all any each both some no not yes "
    "only note subject re fwd date total amount order invoice contract claim payment customer client ticket case "
    "item items"
    " price quantity delivery shipment status is are was were will would can could should may might has have had "
    "do does did let just now then today yesterday tomorrow attached enclosed per according regarding following "
    "further"
    " monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december mr mrs ms dr usd eur gbp cny"
)
_PARTICLES = ("van", "von", "der", "den", "de", "da", "di", "du", "dos", "del", "la", "le", "bin", "ibn", "al")
"""Small words within the names of persons."""
_SMALL = re.compile(rf"^(?: (?:{'|'.join(_PARTICLES)})){{1,2}} $")
_OPENERS = frozenset(_OPENERS_WORDS.split())
"""Words that begin sentences with a capital and name nothing."""


def folded(text: str) -> str:
    """Full-width characters as half-width ones, each in its place."""
    return "".join(form if len(form := unicodedata.normalize("NFKC", char)) == 1 else char for char in text)


def mentions(source: str) -> list[Mention]:
    """Of a folded source, in order and without overlaps; the first MAX_MENTIONS."""
    taken = bytearray(len(source))
    found: list[Mention] = []
    for mention in _all(source):
        if not any(taken[mention.start : mention.end]):
            taken[mention.start : mention.end] = b"\x01" * (mention.end - mention.start)
            found.append(mention)
    return sorted(found, key=lambda mention: mention.start)[:MAX_MENTIONS]


def _all(source: str) -> Iterator[Mention]:
    """What is sure first: a later mention that overlaps an earlier one is none."""
    for match in _EMAIL.finditer(source):
        yield Mention(Kind.EMAIL, *match.span(), match[0].rstrip("."))
    for match in _URL.finditer(source):
        yield Mention(Kind.CODE, *match.span(), match[0].rstrip(".,;"))
    dates = find_dates(source)
    for date, is_only, start, end in dates:
        yield Mention(Kind.DATE, start, end, source[start:end], date=date.isoformat() if is_only else "")
    for match in _PHONE.finditer(source):
        yield Mention(Kind.PHONE, *match.span(), match[0])
    for match in _TIME.finditer(source):
        yield Mention(Kind.TIME, *match.span(), match[0])
    numbers = list(runs(source))
    yield from _numbers(source, (run for run in numbers if _is_no_code(source, run)))
    for match in _GROUPED.finditer(source):
        yield Mention(Kind.CODE, *match.span(), match[0].replace(" ", ""))
    for match in _CODE.finditer(source):
        code = match[0].rstrip(".")
        mixed = any(char.isdigit() for char in code) and any(char.isalpha() for char in code)
        parts = re.fullmatch(r"\d+(?:[-/]\d+)+", code)
        if (mixed and not _MEASURE.fullmatch(code)) or parts:
            yield Mention(Kind.CODE, match.start(), match.start() + len(code), code)
    yield from _numbers(source, numbers)
    yield from _names(source)


def _is_no_code(source: str, run: Run) -> bool:
    """Whether what looks like a code in groups or parts is a number: `12 1/2`, `1 234 567.80`, `250-400 EUR`."""
    text = source[run.start : run.end]
    if "/" in text:
        return run.value is not None
    if " " in text:
        return run.value is not None and bool(run.currency or "," in text or "." in text)
    return run.value is None and bool(run.currency or run.unit == "%")


def _numbers(source: str, found: Iterable[Run]) -> Iterator[Mention]:
    for run in found:
        text = source[run.start : run.end]
        yield Mention(Kind.NUMBER, run.start, run.end, text, run.value, unit=run.unit, currency=run.currency)
    for match in _WORD_NUMBER.finditer(source):
        yield Mention(Kind.NUMBER, *match.span(), match[0], Decimal(_WORDS[match[1].lower()]), is_word=True)
    for match in _CHINESE_NUMBER.finditer(source):
        yield Mention(Kind.NUMBER, *match.span(), match[0], Decimal(_CHINESE[match[1] or match[2]]), is_word=True)


def _names(source: str) -> Iterator[Mention]:
    """Runs of words with capitals; one word that begins a sentence is as likely a word like any other, but counts."""
    run: list[re.Match[str]] = []
    for word in _WORD.finditer(source):
        if run and word[0] in _PARTICLES and source[run[-1].end() : word.start()] == " ":
            continue
        glue = _SMALL.sub(" ", source[run[-1].end() : word.start()]) if run else ""
        if run and (not word[0][0].isupper() or glue not in (" ", " & ")):
            yield from _name(source, run)
            run = []
        if word[0][0].isupper() and word[0].isascii() | (ord(word[0][0]) < 0x250):
            run.append(word)
    if run:
        yield from _name(source, run)


def _name(source: str, run: list[re.Match[str]]) -> Iterator[Mention]:
    """The run without words that only begin its sentence; a single word with a capital for that reason is no name."""
    begins = bool(_SENTENCE_END.search(source[max(0, run[0].start() - 4) : run[0].start()]))
    while run and (run[0][0].lower().rstrip(".") in _OPENERS):
        run, begins = run[1:], False
    if not run or (begins and len(run) == 1 and re.search(rf"\b{re.escape(run[0][0].lower())}\b", source)):
        return
    start, end = run[0].start(), run[-1].end()
    text = source[start:end].rstrip(".")
    yield Mention(Kind.NAME, start, start + len(text), text)
