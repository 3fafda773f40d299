"""What a prose source mentions: numbers, dates, codes, addresses, names; where, and in which words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from services.corrector.form.dates import find_dates

MAX_MENTIONS = 600


class Kind(Enum):
    NUMBER = "number"
    DATE = "date"
    CODE = "code"
    EMAIL = "email"
    PHONE = "phone"
    NAME = "name"


@dataclass(frozen=True)
class Mention:
    kind: Kind
    start: int
    end: int
    """Of the folded source."""
    text: str
    number: Decimal | None = None
    date: str = ""
    """ISO, where the text can be read as one date only."""
    unit: str = ""
    """What follows a number, in small letters: `kg`, `%`, `个月`."""
    currency: str = ""
    is_word: bool = False
    """A number in words, which says little by itself: two of the nine."""


_EMAIL = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,4}")
_URL = re.compile(r"https?://[^\s<>\"'，。；]{1,300}")
_PHONE = re.compile(
    r"\+\d[\d ()-]{5,18}\d|(?<![\d-])0\d{1,4}[ -]\d{3,4}[ -]?\d{3,5}(?![\d-])|\(\d{2,4}\) ?\d{3,4}[ -]?\d{3,4}|"
    r"(?<!\d)1[3-9]\d{9}(?!\d)|(?<![\d-])\d{3}-\d{3}-\d{4}(?![\d-])"
)
_CODE = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{1,24}(?:[-_/.#][A-Za-z0-9]{1,24}){0,6}(?![A-Za-z0-9])")
_GROUPED = re.compile(r"(?<![A-Za-z0-9])(?:[A-Z]{2,4}\d{0,2} )?\d{3,4}(?: \d{2,4}){2,8}(?![A-Za-z0-9])")
"""A long code in groups."""
_MEASURE = re.compile(r"\d+(?:\.\d+)?[A-Za-z]{1,3}\d?")
_NUMBER = re.compile(r"(?<![A-Za-z0-9.])(?<!\d,)(-?)(\d{1,3}(?:,\d{3})+|\d{1,15})(\.\d{1,8})?(?![\d])(?!,\d{3}(?!\d))")
_SCALE = re.compile(
    r" ?(万|亿|千(?!克|米|瓦)|百万|k(?![a-z])|thousand|million|billion|mn(?![a-z])|bn(?![a-z]))", re.IGNORECASE
)
_SCALES = {"万": 4, "亿": 8, "千": 3, "百万": 6, "k": 3, "thousand": 3, "million": 6, "mn": 6, "billion": 9, "bn": 9}
_UNIT = re.compile(r" ?(%|‰|℃|°c|[a-z]{1,12}(?:/[a-z]{1,4})?\b|[\u4e00-\u9fff]{1,3})", re.IGNORECASE)
_CURRENCY_BEFORE = re.compile(r"(US\$|HK\$|[$€£¥]|\b[A-Z]{3}\b|人民币) ?$")
_CURRENCY_AFTER = re.compile(
    r" ?([$€£]|USD\b|EUR\b|GBP\b|CNY\b|RMB\b|euros?\b|dollars?\b|pounds?\b|元|美元|欧元|人民币)"
)
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
    for match in _GROUPED.finditer(source):
        yield Mention(Kind.CODE, *match.span(), match[0].replace(" ", ""))
    for match in _CODE.finditer(source):
        code = match[0].rstrip(".")
        mixed = any(char.isdigit() for char in code) and any(char.isalpha() for char in code)
        parts = re.fullmatch(r"\d+(?:[-/]\d+)+", code)
        if (mixed and not _MEASURE.fullmatch(code)) or parts:
            yield Mention(Kind.CODE, match.start(), match.start() + len(code), code)
    yield from _numbers(source)
    yield from _names(source)


def _numbers(source: str) -> Iterator[Mention]:
    for match in _NUMBER.finditer(source):
        value = Decimal(match[1] + match[2].replace(",", "") + (match[3] or ""))
        end = match.end()
        if scale := _SCALE.match(source, end):
            value, end = value.scaleb(_SCALES[scale[1].lower()]), scale.end()
        unit = _UNIT.match(source, end)
        before = _CURRENCY_BEFORE.search(source[max(0, match.start() - 5) : match.start()])
        after = _CURRENCY_AFTER.match(source, end)
        currency = before[1] if before else after[1] if after else ""
        text = source[match.start() : match.end()]
        yield Mention(
            Kind.NUMBER, match.start(), end, text, value, unit=unit[1].lower() if unit else "", currency=currency
        )
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
