"""Numbers of a source: the longest run of digits and marks is read as one number, or not read at all.

`15'230.40`, `15.230,40`, `$1.2M`, `1,52,304.00`, `12 1/2`, `3万5千`, `−120` and `(120.00)` are numbers; of a run
that may be read in two ways (`1,2345`, `12 300`, `5万8`, `~12`, `3–5`), no part is one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from services.corrector.form.digits import SURE, is_loose, read_digits, read_words

_FRACTIONS = {"½": "0.5", "¼": "0.25", "¾": "0.75", "⅛": "0.125", "⅜": "0.375", "⅝": "0.625", "⅞": "0.875"}
_SPACES = " \u00a0\u202f"
_RUN = re.compile(
    rf"(?<![A-Za-z0-9.])(?<!\d[,'’])(?:"
    rf"(?P<measures>\d{{1,3}}[ ]?(?:h|hrs?|hours?|个?小时|years?|days?|年(?=[ ]?\d{{1,2}}[ ]?个月)|天)"
    rf"(?:[ ]and)?[ ]?\d{{1,3}}[ ]?(?:mins?|minutes?|m|分钟?|months?|个月|hours?|个?小时)(?![a-z]))|"
    r"(?P<sides>\d+(?:\.\d+)?(?:[ ]?[x×*][ ]?\d+(?:\.\d+)?){1,2}[ ]?(?:cm|mm|m|in|厘米|毫米|米)(?![a-z]))|"
    rf"(?P<mixed>\d{{1,4}})[ ](?P<over>\d)/(?P<under>2|4|5|8|10|16)(?![\d/.])|"
    rf"(?P<ratio>\d{{1,3}}/\d{{1,3}})(?![\d/])|"
    rf"(?P<spaced>\d{{1,3}}(?:[{_SPACES}]\d{{3}})+(?!\d)(?:[.,]\d{{1,2}}(?!\d))?)|"
    rf"(?P<exponent>\d{{1,3}}(?:\.\d{{1,6}})?[eE][+-]?\d{{1,2}})(?!\w)|"
    rf"(?P<digits>\.?\d+(?:[.,'’]\d+)*)(?P<part>[{''.join(_FRACTIONS)}⅓⅔])?)"
)
_SCALES = {
    "万亿": 12, "千亿": 11, "百亿": 10, "十亿": 9, "亿": 8, "千万": 7, "百万": 6, "十万": 5, "万": 4, "千": 3, "百": 2,
    "k": 3, "thousand": 3, "million": 6, "millions": 6, "mio": 6, "mn": 6, "mm": 6, "m": 6, "billion": 9, "billions": 9,
    "bn": 9, "b": 9, "mrd": 9, "trillion": 12, "tn": 12, "lakh": 5, "lakhs": 5, "crore": 7, "crores": 7,
}  # fmt: skip
_HAN_SCALE = "万亿|千亿|百亿|十亿|亿|千万|百万|十万|万|千(?!克|米|瓦|字)|百(?!分)"
_SCALE = re.compile(
    rf"({_HAN_SCALE})|[ \u00a0]?(k|thousand|millions?|mio|mn|billions?|bn|mrd|trillion|tn|lakhs?|crores?)(?![a-z])\.?|"
    r"[ \u00a0]?(mm|m|b)(?![a-z²³0-9/])",
    re.IGNORECASE,
)
_COMPOUND = re.compile(rf"(?:\d+(?:\.\d+)?(?:{_HAN_SCALE}))+\d*(?:\.\d+)?")
_TERM = re.compile(rf"(\d+(?:\.\d+)?)({_HAN_SCALE})")
_WORDS = re.compile(
    r"(?<![\u4e00-\u9fff\d.])(?:人民币)?([〇零一二两三四五六七八九十百千万亿壹贰叁肆伍陆柒捌玖拾佰仟萬億]{2,})"
    r"(?=[元圆个件台套箱盒份只支条双把张瓶袋包辆部块卷根吨克斤米天日周月年人名位次页间晚层点%]|公斤|小时|美元|欧元)"
)
_UNIT = re.compile(r" ?(%|‰|℃|°c|[a-z]{1,12}(?:/[a-z]{1,4})?\b|[\u4e00-\u9fff]{1,3})", re.IGNORECASE)
_CURRENCY_BEFORE = re.compile(r"(US\$|HK\$|[$€£¥]|\b[A-Z]{3}\b|人民币)(?:[ \u00a0]?|(?<=[$€£¥])[-−]| [-−])$")
_CURRENCY_AFTER = re.compile(
    r"[ \u00a0]?([$€£]|USD\b|EUR\b|GBP\b|CNY\b|RMB\b|CHF\b|euros?\b|dollars?\b|pounds?\b|元|美元|欧元|人民币)"
)
_PERCENT = re.compile(r"\s?%")
_COMMA_DECIMAL = re.compile(r"(?<![\d,])\d+(?:\.\d{3})*,\d{1,2}(?![\d,])")
_MINUS = re.compile(
    r"(?:(?:^|(?<=[^\w)\]%-]))[-−](?=[$€£¥]|US\$|$)|\b(?:minus|negative)\s|负)[ \u00a0]?(?:US\$|[$€£¥])?\s?$", re.I
)
_UNREAD_MINUS = re.compile(r"(?:^|[^\w)\]])[–—](?:US\$|[$€£¥])?$")
_OPENED = re.compile(r"(?:[:：|\t\n]|\s{2})\s*\((?:US\$|[$€£¥]|[A-Z]{3})?\s?$")
_BARE = re.compile(r"\(\s?$")
_CLOSED = re.compile(r"[ \u00a0]?(?:[A-Z]{3}|[$€£¥])?\)")
_NOT_EXACT_BEFORE = re.compile(r"(?:[~≈<>≤≥±]|\bca\.?|\bcirca)[ \u00a0]?(?:US\$|[$€£¥]|[A-Z]{3})?[ \u00a0]?$")
_NOT_EXACT_AFTER = re.compile(
    r"\+(?!\d)|[ \u00a0]?(?:±|\+/-)|[元个件台天月年人吨%]{0,2}(?:余|多(?![少种次个样项功])|左右|上下)|"
    r"[ \u00a0]?[\w$€£]{0,6} (?:or so|or more|or less)\b|-(?![\w])"
)
_TO = r"(?:[ \u00a0]?[%\w]{0,4}?(?:[-–—~～至到]| to )| [–—~] )(?:US\$|[$€£¥]|[A-Z]{3} )?"
_RANGE_BEFORE = re.compile(rf"\d{_TO}$")
_RANGE_AFTER = re.compile(rf"{_TO}\d")


@dataclass(frozen=True)
class Run:
    """What stands at [start, end) as one number."""

    start: int
    end: int
    value: Decimal | None
    """None where it cannot be read in one sure way."""
    unit: str = ""
    """What follows, in small letters: `kg`, `%`, `个月`."""
    currency: str = ""


def runs(source: str) -> Iterator[Run]:
    """All numbers in digits, or in Chinese numerals of two and more characters with what they count."""
    for match in _RUN.finditer(source):
        yield _run(source, match)
    for match in _WORDS.finditer(source):
        said = read_words(match[1])
        value = None if said is None or is_loose(match[1]) else Decimal(said)
        yield _placed(source, match.start(1), match.end(1), value)


def _run(source: str, match: re.Match[str]) -> Run:
    value, end = _value(source, match), match.end()
    if match["digits"] and (compound := _COMPOUND.match(source, match.start())) and len(compound[0]) > len(match[0]):
        value, end = _sum(compound[0]), compound.end()
    elif scale := _SCALE.match(source, end):
        word = scale[0].strip(" \u00a0.").lower()
        around = _CURRENCY_BEFORE.search(source[max(0, match.start() - 5) : match.start()]) or _CURRENCY_AFTER.match(
            source, scale.end()
        )
        if not scale[3] or around:
            value, end = (None if value is None else value.scaleb(_SCALES[word])), scale.end()
        elif scale[3] in ("M", "B"):
            value, end = None, scale.end()
    return _placed(source, match.start(), end, value)


def _value(source: str, match: re.Match[str]) -> Decimal | None:
    if match["mixed"]:
        return Decimal(match["mixed"]) + Decimal(match["over"]) / Decimal(match["under"])
    if match["exponent"]:
        return Decimal(match["exponent"])
    if match["ratio"] or match["measures"] or match["sides"]:
        return None
    if match["spaced"] and "," in match[0]:
        return Decimal(re.sub(rf"[{_SPACES}]", "", match[0]).replace(",", "."))
    if match["spaced"]:
        is_plain = source[match.end() - 4] == " " and match[0].count(" ") == 1 and match[0][-3] not in ".,"
        if is_plain and not _CURRENCY_BEFORE.search(source[max(0, match.start() - 5) : match.start()]):
            return None
    number = _digits(match["digits"] or match["spaced"], source, match.end())
    if match["part"]:
        more = _FRACTIONS.get(match["part"])
        return None if number is None or more is None else number + Decimal(more)
    return number


def _digits(text: str, source: str, end: int) -> Decimal | None:
    if text.startswith("."):
        return None
    read = read_digits(text)
    if read is None:
        return None
    value, confidence = read
    if re.fullmatch(r"\d+,\d{1,2}", text):
        is_long = len(text.partition(",")[0]) > 3
        return value if is_long or _CURRENCY_AFTER.match(source, end) or _PERCENT.match(source, end) else None
    if confidence < SURE and re.fullmatch(r"\d+\.\d+", text):  # 1.234
        return None if _CURRENCY_AFTER.match(source, end) or _COMMA_DECIMAL.search(source) else value
    return value if confidence >= SURE or re.fullmatch(r"\d{1,3}(?:,\d{3})+", text) else None


def _sum(text: str) -> Decimal | None:
    """`3万5千`; `5万8` may be 58,000."""
    terms, at, least, total = _TERM.finditer(text), 0, 99, Decimal(0)
    for term in terms:
        power = _SCALES[term[2]]
        if power >= least:
            return None
        total, least, at = total + Decimal(term[1]).scaleb(power), power, term.end()
    return total if at == len(text) else None


def _placed(source: str, start: int, end: int, value: Decimal | None) -> Run:
    before = source[start - 16 : start] if start >= 16 else f"\n{source[:start]}"
    currency = _CURRENCY_BEFORE.search(before[-6:]) or _CURRENCY_AFTER.match(source, end)
    unit = _UNIT.match(source, end)
    if _is_not_exact(source, before, end):
        value = None
    elif value is not None and (minus := _MINUS.search(before)):
        value, start = -value, start - (len(before) - minus.start())
    elif value is not None and (closed := _CLOSED.match(source, end)):
        if opened := _OPENED.search(before):
            value, start, end = -value, start - len(before[opened.start() :].lstrip(":：|\t\n ")), closed.end()
        elif _BARE.search(before) and not currency and value.as_tuple().exponent != 0:
            value = None
    return Run(start, end, value, unit[1].lower() if unit else "", currency[1] if currency else "")


def _is_not_exact(source: str, before: str, end: int) -> bool:
    if _UNREAD_MINUS.search(before) or _NOT_EXACT_BEFORE.search(before):
        return True
    if _RANGE_BEFORE.search(before) or _RANGE_AFTER.match(source, end):
        return True
    return _NOT_EXACT_AFTER.match(source, end) is not None
