# ruff: noqa: E501  tables of words are easier to read in long lines
"""Names of members for the ones that the schema knows: another case, other separators, a typing error."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import OSA

MAX_NAMES = 400
"""Of objects with more, unknown names are compared exactly only."""

_SYNONYMS = (
    "quantity|qty|count|数量", "amount|amt|金额", "phone|tel|telephone|mobile|phonenumber|电话|手机|手机号", "address|addr|地址", "number|no|num", "description|desc|描述",
    "price|unitprice|单价", "name|fullname|姓名", "email|mail|emailaddress|邮箱|电子邮件", "date|日期", "total|totalamount|sum|总额|合计", "id|identifier|编号",
    "company|companyname|公司", "customer|customername|client|客户|客户名称", "currency|币种|货币", "status|state|状态", "note|notes|remark|remarks|comment|备注",
)  # fmt: skip


MAX_NAME_CHARS = 200


def folded(name: str) -> str:
    """A name without case, width and separators."""
    return "".join(char for char in unicodedata.normalize("NFKC", name).casefold() if char.isalnum())


_GROUPS = [frozenset(map(folded, group.split("|"))) for group in _SYNONYMS]


@dataclass(frozen=True)
class Renaming:
    old: str
    new: str
    reason: str
    confidence: float


def renamings(
    unknown: Sequence[str],
    missing: Sequence[str],
    required: frozenset[str],
    *,
    is_closed: bool,
    is_plausible: Callable[[str, str], bool],
) -> list[Renaming]:
    """For unknown names the missing ones that they mean; `is_plausible(old, new)`: the value could stand there."""
    done: list[Renaming] = []
    if len(unknown) > MAX_NAMES or len(missing) > MAX_NAMES:
        return done
    unknown = [name for name in unknown if len(name) <= MAX_NAME_CHARS]
    missing = list(missing)
    for confidence, reason, matches in (
        (0.9, "the name in another spelling", lambda old, new: folded(old) == folded(new) != ""),
        (0.85, "the name with one typing error", lambda old, new: _distance(old, new) == 1),
        (0.8, "the name with two typing errors", lambda old, new: _distance(old, new) == 2),
        (0.65, "another word for the name", _means_same),
    ):
        pairs = [(old, new) for old in unknown for new in missing if matches(old, new)]
        for old, new in pairs:
            if sum(other == old for other, _ in pairs) > 1 or sum(other == new for _, other in pairs) > 1:
                continue
            sure = confidence == 0.9 or is_plausible(old, new)
            if not sure or not _allowed(old, new, confidence, new in required, is_closed):
                continue
            lowered = 0.7 if confidence in (0.85, 0.8) and not _is_slip(old, new) else confidence
            lowered = lowered if len(folded(new)) > 2 or confidence == 0.9 else 0.65
            done.append(Renaming(old, new, f"{old!r} was taken for {new!r}: {reason}", lowered))
        unknown = [old for old in unknown if all(made.old != old for made in done)]
        missing = [new for new in missing if all(made.new != new for made in done)]
    needed = [new for new in missing if new in required]
    if is_closed and len(unknown) == 1 and len(needed) == 1 and is_plausible(unknown[0], needed[0]):
        reason = f"{unknown[0]!r} was taken for {needed[0]!r}: the only name left for the only one missing"
        done.append(Renaming(unknown[0], needed[0], reason, 0.55))
    return done


def _allowed(old: str, new: str, confidence: float, is_required: bool, is_closed: bool) -> bool:
    """In an open object an unknown name may be meant as it is."""
    if confidence == 0.9 or is_required or is_closed:
        return True
    left, right = folded(old), folded(new)
    grows = left.startswith(right) or right.startswith(left)  # price and prices, line and line2
    return confidence == 0.85 and len(right) >= 5 and not grows and not re.search(r"\d", left + right)


def _distance(old: str, new: str) -> int:
    """Typing errors between two names; 9 where they are too short or too different to tell."""
    left, right = folded(old), folded(new)
    is_wide = not right.isascii()
    if re.sub(r"\D", "", left) != re.sub(r"\D", "", right):
        return 9
    distance = int(OSA.distance(left, right, score_cutoff=2))
    if distance == 1 and len(right) >= (2 if is_wide else 3):
        return 1
    return 2 if distance == 2 and len(right) >= (5 if is_wide else 7) else 9


def _is_slip(old: str, new: str) -> bool:
    """A letter more or less, or two exchanged; another letter in a short word may make another word of it."""
    left, right = folded(old), folded(new)
    replaces = len(left) == len(right) and sorted(left) != sorted(right)
    return not replaces or (right.isascii() and len(right) >= 6)


def _means_same(old: str, new: str) -> bool:
    left, right = folded(old), folded(new)
    return any(left in group and right in group for group in _GROUPS)


def without(members: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in members.items() if key != name}


def renamed(members: dict[str, Any], old: str, new: str) -> dict[str, Any]:
    return {new if key == old else key: value for key, value in members.items()}
