# ruff: noqa: E501  tables of words are easier to read in long lines
"""Texts for the formats and patterns of a schema: dates, addresses, identifiers in another spelling."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterator

from services.corrector.form.compounds import iso_duration
from services.corrector.form.dates import Moment, iso_time, read_dates, read_time
from services.corrector.form.edits import Guess
from services.corrector.form.shape import Shape

MAX_CHARS = 512
_STYLES = ("%Y-%m-%d", "%Y/%m/%d", "%Y.%m.%d", "%Y%m%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y年%m月%d日", "%Y-%m", "%Y/%m", "%Y年%m月", "%d-%b-%Y", "%d %b %Y", "%B %d, %Y")  # fmt: skip
_HINTS = {
    "yyyy-mm-dd": "%Y-%m-%d", "yyyy/mm/dd": "%Y/%m/%d", "yyyymmdd": "%Y%m%d", "dd/mm/yyyy": "%d/%m/%Y", "mm/dd/yyyy": "%m/%d/%Y",
    "dd.mm.yyyy": "%d.%m.%Y", "yyyy.mm.dd": "%Y.%m.%d", "yyyy年mm月dd日": "%Y年%m月%d日", "iso 8601": "%Y-%m-%d", "iso-8601": "%Y-%m-%d",
}  # fmt: skip
_UUID = re.compile(
    r"[{(]?(?:urn:uuid:)?([0-9a-fA-F]{8})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{4})-?([0-9a-fA-F]{12})[)}]?"
)
_EMAIL = re.compile(r"[A-Za-z0-9_.+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,5}")


def string_guesses(text: str, shape: Shape, about: str) -> Iterator[Guess]:
    """Texts that the format or pattern asks for; the caller keeps those that it accepts."""
    if len(text) > MAX_CHARS:
        return
    name = shape.keywords.get("format")
    if name in ("date", "date-time"):
        yield from (_moment(moment, name, text) for moment in _moments(text))
    elif name == "time" and (read := read_time(unicodedata.normalize("NFKC", text).strip())):
        zone = read[2] or "Z"
        yield Guess(
            f"{read[0]:%H:%M:%S}{'.' + read[1] if read[1] else ''}{zone}",
            "a time in another form",
            0.9 if read[2] else 0.6,
        )
    elif name == "duration" and (duration := iso_duration(text)) is not None:
        yield Guess(duration, "a length of time in another form", 0.85)
    elif name == "uuid" and (match := _UUID.fullmatch(text.strip())):
        yield Guess("-".join(match.groups()), "a UUID in another form", 0.9)
    elif name in ("email", "idn-email"):
        bare = (
            unicodedata.normalize("NFKC", text)
            .replace(" ", "")
            .replace("(at)", "@")
            .replace("[at]", "@")
            .replace("[dot]", ".")
        )
        if len(found := _EMAIL.findall(bare)) == 1:
            yield Guess(found[0], "the address without what stood around it", 0.85)
    elif name in ("uri", "uri-reference", "iri"):
        bare = re.sub(r"^\[[^\]]*\]\((.*)\)$", r"\1", unicodedata.normalize("NFKC", text).strip().strip("<>"))
        yield Guess(bare.replace(" ", ""), "the address without what stood around it", 0.85)
    if "pattern" in shape.keywords or "maxLength" in shape.keywords or "minLength" in shape.keywords or name:
        yield from _respelled(text, cases="pattern" in shape.keywords)
        yield from _dates_for_pattern(text, shape)


def _moments(text: str) -> list[Moment]:
    if text.isdigit() and len(text) in (10, 13) and text[0] == "1":
        moment = dt.datetime.fromtimestamp(int(text[:10]), dt.UTC)
        return [Moment(moment.date(), 0.6, moment.time(), "", "Z")]
    return read_dates(text)


def _moment(moment: Moment, name: str, text: str) -> Guess:
    if name == "date":
        loses = moment.time is not None and moment.time != dt.time(0)
        return Guess(f"{moment.date:%Y-%m-%d}", "a date in another form", min(moment.confidence, 0.7 if loses else 0.9))
    if moment.time is None:
        return Guess(f"{moment.date:%Y-%m-%d}T00:00:00Z", "a date without a time", min(moment.confidence, 0.5))
    confidence = moment.confidence if moment.zone else min(moment.confidence, 0.6)
    return Guess(f"{moment.date:%Y-%m-%d}T{iso_time(moment)}", "a time in another form", confidence)


def date_style(text: str) -> str:
    """The date style that a description names (`YYYY-MM-DD`); empty if none."""
    low = text.lower()
    return next((style for name, style in _HINTS.items() if name in low), "")


def _dates_for_pattern(text: str, shape: Shape) -> Iterator[Guess]:
    if "pattern" not in shape.keywords:
        return
    for moment in read_dates(text)[:2]:
        styled = {moment.date.strftime(style) for style in _STYLES}
        fitting = sorted(style for style in styled if shape.accepts(style))
        confidence = moment.confidence if len(fitting) == 1 else 0.6
        yield from (Guess(style, "a date in the form that the pattern asks for", confidence) for style in fitting)


def _respelled(text: str, *, cases: bool) -> Iterator[Guess]:
    """The same characters in other widths, cases and with other separators."""
    narrow = unicodedata.normalize("NFKC", text)
    bare = narrow.strip().strip("\"'`“”‘’*<>()[]（）【】")
    yield Guess(narrow, "full-width characters", 0.9)
    yield Guess(bare, "without what stood around it", 0.85)
    compact = re.sub(r"[\s\u200b-\u200f\ufeff\x00-\x1f]+", "", bare)
    yield Guess(compact, "without spaces", 0.85)
    if not cases:
        return
    for form in dict.fromkeys((bare, compact)):
        yield Guess(form.upper(), "in capitals", 0.85)
        yield Guess(form.lower(), "in small letters", 0.85)
    for separator in ("-", "_", "", "/", "."):
        changed = re.sub(r"[\s\-_/.·–—]+", separator, bare)
        yield Guess(changed, "with the separators of the pattern", 0.82)
        yield Guess(changed.upper(), "in capitals, with the separators of the pattern", 0.81)
    if split := re.fullmatch(r"([A-Za-z]{1,6})[\s\-_:#.]*(\d[\d\-]*)", compact):
        for separator in ("-", "", "_"):
            yield Guess(f"{split[1].upper()}{separator}{split[2]}", "with the separators of the pattern", 0.8)
    digits = re.sub(r"\D", "", narrow)
    if digits and len(digits) * 2 >= len(compact):
        yield Guess(digits, "the digits alone", 0.7)
        yield Guess(f"+{digits}", "the digits alone", 0.7)
        if len(digits) == 13 and digits.startswith("861"):
            yield Guess(digits[2:], "a telephone number without its country", 0.8)
    confused = compact.translate(str.maketrans("OoIlSB", "001158"))
    if confused != compact:
        yield Guess(confused, "letters that look like digits", 0.6)
