"""All that a source has which might be a name of one kind: rather too much than too little."""

from __future__ import annotations

import re
from collections.abc import Iterable

from services.corrector.content.evidence import Source, Span
from services.corrector.content.fields import Field
from services.corrector.content.labels import is_generic
from services.corrector.content.mentions import Kind
from services.corrector.content.roles import Role, shows
from services.corrector.form.names import SURNAMES

NAMES = frozenset({Role.PERSON, Role.COMPANY})
"""Kinds whose names stand for parties of either kind: a customer is a person or a company."""
_PERSON = re.compile(
    rf"(?:{'|'.join(sorted(SURNAMES, key=len, reverse=True))})[\u4e00-\u9fff·]{{1,2}}(?=[^\u4e00-\u9fff]|$|"
    r"[的与和及于在为是向将已由因对从至以同被给又也都即共需须应可会要能就了先女来负处审检报联签经同])"
)
_COMPANY = re.compile(
    r"[\u4e00-\u9fff()]{2,24}?(?:公司|集团|中心|银行|工厂|医院|大学|学院|学校|酒店|宾馆|事务所|研究院|研究所|商行|商店|超市)"
)
_ADDRESS = re.compile(
    r"[\u4e00-\u9fff\d]{0,20}(?:路|街|道|巷|弄|村|号|栋|幢|座|大厦|园)[\u4e00-\u9fff\d]{0,12}|"
    r"\d+[a-z]? (?:[A-Z][\w'’]*\.? ){1,4}|\b(?:Street|Road|Avenue|Lane|Square|Drive|Park|Building|Box|Quay|Hill|Walk|"
    r"Way|Court|Place|Boulevard|Floor|Suite|Unit)\b"
)
_ORDINARY = frozenset(
    "total payment delivery shipment goods parts labor hours weight contract agreement invoice order ticket booking "  # noqa: SIM905  words read better in lines
    "reference report results minutes summary notice questions transport breakfast transfer interest tax vat net gross "
    "price fee deposit rent salary amount number date period term site status severity downtime glucose hemoglobin "
    "eur usd gbp cny rmb id po no ref tel phone email e-mail fax iban ltd inc gmbh our your you we they he she it "
    "passenger patient student guest customer client buyer seller supplier vendor carrier shipper consignee landlord "
    "tenant employer employee guardian technician supervisor track serviced handled seat flight room school grade "
    "contact manager driver physician doctor laboratory hotel dear regards sincerely thank thanks hello greetings "
    "sir madam team annex appendix clause article section page before after please kindly notes note item items".split()
)


def has_lookalike(known: Field, own: Iterable[Span], claimed: Iterable[Span], source: Source) -> bool:
    """Whether anything but the field's own places, and what belongs to others, may be a thing of its kind."""
    settled = [*own, *claimed]
    return any(
        not any(start < span[1] and span[0] < end for start, end in settled) and not source.is_aside(span)
        for span in _candidates(known.role, source)
    )


def persons(text: str) -> Iterable[Span]:
    """Where Chinese names of persons may stand."""
    return (match.span() for match in _PERSON.finditer(text))


def _candidates(role: Role | None, source: Source) -> Iterable[Span]:
    if role is Role.ADDRESS:
        yield from (match.span() for match in _ADDRESS.finditer(source.text))
        return
    for mention in source.mentions:
        if mention.kind is Kind.NAME and not _is_ordinary(mention.text):
            yield mention.start, mention.end
    for pattern in (_PERSON, _COMPANY):
        for match in pattern.finditer(source.text):
            yield match.span()


def _is_ordinary(text: str) -> bool:
    return is_generic(text) or all(word.lower().rstrip(".,") in _ORDINARY for word in text.split())


def looks_like(known: Field, value: str) -> bool:
    """Whether a value is seen to be a name of the field's kind, wherever it stands."""
    if known.role is Role.ADDRESS:
        return len(value) >= 6 and _ADDRESS.search(value) is not None and any(map(str.isdigit, value))
    return known.role in NAMES and any(shows(role, value, "", "") for role in NAMES)
