"""What a place's neighbours say that somebody does: who orders from whom, who lets to whom, who writes as a doctor."""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.corrector.content.labels import Label

_BUY = r"(?:order|purchase|buy|procure)s?|ordered|purchased|bought|procured"
_SELL = r"(?:sell|supplie|provide)s|sold|supplied|provided"
_ZH_BUY = "订购|采购|购买|购入|订货|下单|下达|进货"
_ZH_RENT = "租用|租赁|承租|租下|租入|租"
_ZH_SEND = "发出|发货|发运|寄出|寄送|发送|运送"
_UP_TO = r"(?:于|在)?[^，。；、\n]{0,16}?"


@dataclass(frozen=True)
class Deed:
    """Behind `before` and in front of `after` stands a name of a field that has one of the words."""

    words: frozenset[str]
    before: re.Pattern[str] | None = None
    after: re.Pattern[str] | None = None


def _deed(words: str, before: str = "", after: str = "") -> Deed:
    return Deed(
        frozenset(words.split()),
        re.compile(rf"(?:{before})\s*$", re.IGNORECASE) if before else None,
        re.compile(rf"\s*(?:{after})", re.IGNORECASE) if after else None,
    )


_BUYER = "buyer purchaser customer client 买方 购买方 采购方 购货方 客户"
_SELLER = "seller supplier vendor 卖方 销售方 供应商 供货商 供货方 供方"
_LANDLORD = "landlord lessor 出租方 房东"
_TENANT = "tenant lessee 承租方 租客"
_SENDER = "shipper sender consignor 发货方 发货人 寄件人"
_RECEIVER = "consignee receiver recipient 收货方 收货人 收件人"
_DEEDS = (
    _deed(_BUYER, after=rf"(?:hereby |has |have |will )?(?:{_BUY})\b"),
    _deed(_BUYER, after=rf"{_UP_TO}向[^，。；\n]{{2,24}}?(?:{_ZH_BUY})"),
    _deed(_BUYER, before=rf"\b(?:{_SELL})\s(?:[\w ]{{1,40}}\s)?to"),
    _deed(_SELLER, before=rf"\b(?:{_BUY})\s(?:[\w ]{{1,40}}\s)?from"),
    _deed(_SELLER, before="向", after=_ZH_BUY),
    _deed(_SELLER, after=rf"(?:hereby |has |have |will )?(?:{_SELL})\b"),
    _deed(_LANDLORD, after=r"(?:hereby )?(?:lets\s|(?:leases|rents)\s(?:out\s|(?:[\w ]{1,40}\s)to\s))"),
    _deed(_LANDLORD, before="向", after=_ZH_RENT),
    _deed(_TENANT, after=rf"{_UP_TO}向[^，。；\n]{{2,24}}?(?:{_ZH_RENT})"),
    _deed(_TENANT, after=r"(?:has |have |will )?rent(?:s|ed)?\s(?:the|an?|this|our)\s(?![\w ]{1,40}\sto\s)"),
    _deed(_TENANT, before=r"\b(?:lets|leases|rents)\s(?:[\w ]{1,40}\s)?to"),
    _deed(_SENDER, after=rf"{_UP_TO}向[^，。；\n]{{2,24}}?(?:{_ZH_SEND})"),
    _deed(_SENDER, before=r"\b(?:picked up|collected|collects|picks up)\s(?:[\w ]{1,40}\s)?from"),
    _deed(_RECEIVER, before="向", after=_ZH_SEND),
    _deed("carrier haulier courier 承运方 承运人", after=r"(?:has |will )?(?:picked|picks|collects?|collected|pick)\b"),
    _deed("employer", before=r"\b(?:employed by|works? for|working for|hired by|payroll of|employee of|staff of)"),
    _deed("employer", after=r"(?:has |have |had )?(?:employs|employed|hired|hires)\b"),
    _deed("doctor physician 医生 医师", before=r"\bDr\.?"),
    _deed("doctor physician 医生 医师", after="医生|大夫|医师"),
)
DEED = 2
"""How far a deed counts as a word that stands there."""


def does(labels: tuple[Label, ...], before: str, after: str) -> bool:
    """Whether what stands before and after a name says that it is one that such a field names."""
    return any(_is_own(deed, labels) and _fits(deed, before, after) for deed in _DEEDS)


def does_otherwise(labels: tuple[Label, ...], before: str, after: str) -> bool:
    """Whether what stands before and after a name says only that it is one that other fields name."""
    fitting = [deed for deed in _DEEDS if _fits(deed, before, after)]
    return bool(fitting) and not any(_is_own(deed, labels) for deed in fitting)


def _is_own(deed: Deed, labels: tuple[Label, ...]) -> bool:
    return any(label.word in deed.words for label in labels)


def _fits(deed: Deed, before: str, after: str) -> bool:
    if deed.before is not None and not deed.before.search(before):
        return False
    return deed.after is None or deed.after.match(after) is not None
