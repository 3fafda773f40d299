"""Where a name ends in prose: whether a text that stands there is whole, and what it is the beginning of."""

from __future__ import annotations

import re

from services.corrector.form.names import SURNAMES

MAX_EXTENSION = 60
MAX_FOUND = 4
_HAN = re.compile(r"[\u3400-\u9fff]")
_MARKS = "\n\"'“”‘’「」《》()（）[]<>;；。！!?？、，：:|"
_SMALL_WORDS = frozenset(
    "a an the at for from to in on by is are was were be been will would shall should must may can has have had and "  # noqa: SIM905  words read better in lines
    "that which who whom whose with as when where while if or but so not into onto via per under over between than "
    "then it its this these those he she they we i you agrees agreed confirms confirmed please".split()
)
_JOINED = re.compile(
    r"\s*(?:&|\+|/)\s*\w|[-'’]\w|,\s*(?:Ltd|Inc|LLC|Co\b|S\.A|GmbH)|"
    r",\s*[A-Z0-9][\w ]{0,20}$|\s(?:of|de|von|van|und|et)\s"
)
_PARTICLES = frozenset(
    "的与和及于在为是向将已由因对从至以按同把被给又也都即共需须应可会要能曾拟就了并则提负表说称确认请承发买卖签支付收订委通出租采购供应担保寄报主记"
)
_ABBREVIATED = re.compile(r"\b(?:Co|Ltd|Inc|Corp|Bros|Dept|St|Ave|Rd|No|Jr|Sr|Dr|[A-Z])$", re.IGNORECASE)
_BEFORE_SURNAMES = frozenset(
    "van von der den de del della di da du la le ter ten zu zum dos das bin ibn al el y".split()  # noqa: SIM905  words read better in lines
)
"""Small words within a name: Chloé van der Meer."""
_POINT_WITHIN = re.compile(r"\.(?:[,;:)]|\s+[a-z])")
"""A point that ends no sentence."""
_IN_ADDRESSES = frozenset("号路街道巷弄楼栋幢座区村镇市县省层室")
"""A number that follows belongs to the same address."""
_ENDINGS = (
    "公司", "集团", "中心", "银行", "医院", "大学", "学院", "酒店", "宾馆",
    "研究所", "研究院", "事务所", "委员会", "协会", "号", "室", "楼", "层", "机场", "车站",
)  # fmt: skip
_NEXT_WORD = re.compile(r"(?:,? (?=(?:Ltd|Inc|LLC|Co|GmbH|S\.A)\b)| (?:& |of )?)[A-Z0-9][\w\-'’]*(?:\.(?=,))?")


def is_whole(text: str, start: int, end: int) -> bool:
    """Whether a text that stands at [start, end) of a folded source is seen to end there."""
    last, following = text[end - 1], text[end : end + 1]
    if not following:
        return True
    if _HAN.match(last):
        if _HAN.match(following):
            return following in _PARTICLES or text[start:end].endswith(_ENDINGS)
        return not (following.isdigit() and last in _IN_ADDRESSES)
    if _HAN.match(following):
        return not last.isdigit() or following in _PARTICLES
    if following.isalnum() or _JOINED.match(text, end):
        return False
    if following in _MARKS:
        return True
    if _POINT_WITHIN.match(text, end) and _ABBREVIATED.search(text[start:end]):
        return False
    if following in ",.":
        return not text[end + 1 : end + 2].isalnum() and not re.match(r", [A-Z0-9]\w*(?:[,.;\n]|$)", text[end:])
    word = re.compile(r"\s*([\w$€£¥]*)").match(text, end)
    name = word[1] if word else ""
    if text[start].isupper() and {name, text[start:end].split()[-1]} & _BEFORE_SURNAMES:
        return False
    return not name or name.lower() in _SMALL_WORDS or (text[start].isupper() and name[0].islower())


def is_full_person(text: str) -> bool:
    """Whether a Chinese text is as long as a person's name is at most: 张建国, 司马建国."""
    if not all(map(_HAN.match, text)):
        return False
    return len(text) == 4 if text[:2] in SURNAMES else len(text) == 3 and text[0] in SURNAMES


def ends_clearly(text: str, start: int, end: int) -> bool:
    """Whether a text ends there and nothing else can be meant: the point after `Co` or `Ltd` may belong to it."""
    return is_whole(text, start, end) and not (text[end : end + 1] == "." and _ABBREVIATED.search(text[start:end]))


def may_lack_point(text: str, spans: list[tuple[int, int]]) -> bool:
    """Whether a value that ends like `Inc` has a point behind it wherever it stands, which may belong to it."""
    return bool(spans) and all(
        text[end : end + 1] == "." and _ABBREVIATED.search(text[start:end]) is not None for start, end in spans
    )


def extensions(text: str, lowered: str, value: str) -> list[tuple[int, int]]:
    """Where something stands in a folded source that the value is the beginning of, up to where that ends."""
    found: list[tuple[int, int]] = []
    key = value.lower()
    at = lowered.find(key) if len(key) >= 2 else -1
    while at >= 0 and len(found) < MAX_FOUND:
        end = _end_of_name(text, at + len(key))
        begins_word = at == 0 or not (text[at - 1].isalnum() and text[at - 1].isascii() and text[at].isascii())
        if end > at + len(key) and begins_word:
            found.append((at, end))
        at = lowered.find(key, at + 1)
    return found


def ends_at_mark(text: str, end: int) -> bool:
    """Whether a mark or the end of the text follows that ends every name; a comma need not."""
    if re.match(r",\s?[A-Z0-9]", text[end:]):
        return False
    return text[end : end + 1] in _MARKS or not text[end:].strip() or re.match(r"[.,](?:\s|$)", text[end:]) is not None


def _end_of_name(text: str, end: int) -> int:
    limit = min(len(text), end + MAX_EXTENSION)
    if _HAN.match(text[end : end + 1]):
        while end < limit and (_HAN.match(text[end]) or text[end].isdigit()) and text[end] not in _PARTICLES:
            end += 1
            if text[:end].endswith(("公司", "集团")):
                break
        return end
    while end < limit and text[end].isascii() and (text[end].isalnum() or text[end] in "-'"):
        end += 1
    while (match := _NEXT_WORD.match(text, end)) and match.end() <= limit:
        end = match.end()
    return end
