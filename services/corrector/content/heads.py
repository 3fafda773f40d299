"""How a form heads what it tells: labels as they are written, and whose they are."""

from __future__ import annotations

import re
from collections.abc import Sequence

from services.corrector.content.labels import Label, inflected, is_generic, same_as

_HEAD_END = re.compile(
    r" (?:name|full name|number|no\.?|id|date|on|code|amount|address)$|"
    r"(?<=[\u4e00-\u9fff]{2})(?:名称|姓名|日期|时间|编号|号码|金额)$"
)
_HEAD_START = re.compile(r"^(?:the|date of|name of|number of|no\.? of) |^(?:本次|本)(?=[\u4e00-\u9fff]{2})")
_HEAD_TAIL = re.compile(
    r"(?: (?:name|number|no\.?|nr|id|date|on|at|by|code|amount|value|is))+$|"
    r"(?:名称|姓名|名|日期|日|时间|编号|号码|号|金额|额|人|方|为|是)$"
)
"""Behind the word of a label that says what it is."""
_CONTACT = re.compile(r"(?:your |our )?contact(?: person| details)?|reach us|questions\??|联系人?|联系方式|咨询")
_HEAD_WORDS: dict[str, set[str]] = {}
for _names in (
    "number no no. nr # id",
    "e-mail email mail",
    "date day on",
    "phone telephone tel tel. mobile",
    "amount sum value",
    "cost costs",
    "name",
):
    for _word in _names.split():
        _HEAD_WORDS[_word] = set(_names.split()) - {_word}


def heads(*texts: str) -> tuple[str, ...]:
    """How a form may head a field: its name, title or short description, normalised."""
    spaced = [re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text) for text in texts if text and len(text) <= 40]
    return tuple(dict.fromkeys(normal_head(text) for text in spaced))


def normal_head(text: str) -> str:
    """A label in small letters, with single spaces, without what stands in brackets behind it."""
    bare = re.sub(r"[(（].*", "", text)
    return " ".join(re.sub(r"[_\-]+", " ", bare).lower().split())


def spellings(head: str) -> set[str]:
    """What a form may write instead of a label: a word that means the same, or without what goes without saying."""
    words = head.split()
    found = {_HEAD_END.sub("", head), _HEAD_START.sub("", head), *same_as(head)}
    if len(words) <= 3:
        for at, word in enumerate(words):
            others = same_as(word) | _HEAD_WORDS.get(word, set())
            found |= {" ".join([*words[:at], other, *words[at + 1 :]]) for other in others if other.isascii()}
    return {each.strip() for each in found if len(each.strip()) > 1 and not is_generic(each.strip())} - {head}


def is_own_head(head: str, heads: Sequence[str]) -> bool:
    """Whether the label of a form, normalised, is the field's, word for word or with a word that means the same."""
    bare = re.sub(r"^(?:our|your|the|my) ", "", head)
    return bare in heads or any(bare in spellings(each) for each in heads)


def names_field(head: str, heads: Sequence[str], own: Sequence[Label], *, is_contact: bool) -> bool:
    """Whether the label of a form, normalised, may be a field's: what it ends with is a word for the field.

    `is_contact`: it may as well be somebody's who can be reached there.
    """
    if is_own_head(head, heads):
        return True
    if head.endswith("地址") and any(each.endswith("地址") and len(each) > 2 for each in heads):
        return len(head) == 2  # 注册地址 is not 收货地址
    main, *rest = re.split(r" (?:of|for) ", head, maxsplit=1)
    if rest and is_generic(main):
        main = rest[0]
    bare = _HEAD_TAIL.sub("", main).strip()
    if not bare or is_generic(bare):
        return True
    if is_contact and _CONTACT.fullmatch(head):
        return True
    return any(
        match.end() == len(text)
        for text in (main, bare)
        for label in own
        for match in inflected(label.word).finditer(text)
    )
