"""What kind of thing a text field names, and the words by which a source shows that it speaks of such a thing."""

from __future__ import annotations

import re
from enum import Enum

from services.corrector.form.names import SURNAMES


class Role(Enum):
    PERSON = "person"
    PLACE = "place"
    DESTINATION = "destination"
    ORIGIN = "origin"
    PRODUCT = "product"
    COMPANY = "company"
    ADDRESS = "address"
    DEPARTMENT = "department"


_ROLES = {
    Role.ADDRESS: re.compile(r"address|(?:^|_)street|地址|住址|地点"),
    Role.DEPARTMENT: re.compile(r"department|division|部门|科室"),
    Role.DESTINATION: re.compile(r"destination|arrival|deliver_to|ship_to|(?:^|_)to(?:_|$)|目的地|到达|送达地"),
    Role.ORIGIN: re.compile(r"origin|departure|ship_from|(?:^|_)from(?:_|$)|始发|出发|起运|发货地"),
    Role.PLACE: re.compile(
        r"city|town|country|location|place|venue|branch|region|province|城市|市$|国家|地点|"
        r"地区|省|场地"
    ),
    Role.PRODUCT: re.compile(r"product|item|goods|article|material|产品|商品|货物|物品|品名|物料"),
    Role.COMPANY: re.compile(
        r"company|firm|supplier|vendor|manufacturer|carrier|laborator|shipper|consignee|buyer|seller|purchaser|lessor|lessee|lender|bank|insurer|employer|institution|"
        r"organi[sz]ation|agency|公司|企业|供应商|厂商|机构|银行|单位|商家|承运|[方商]$|甲方|乙方"
    ),
    Role.PERSON: re.compile(
        r"name|person|customer|client|recipient|holder|manager|owner|employee|patient|doctor|author|applicant|"
        r"sender|contact|guest|passenger|student|teacher|driver|physician|guardian|technician|supervisor|inspector|reporter|"
        r"handler|clerk|lawyer|attorney|engineer|agent|assignee|reviewer|approver|surveyor|chair|attendee|salesperson|"
        r"(?:report|assign|approv|prepar|sign|inspect|review|check|handl|written|record|request|issued)(?:ed)?_(?:by|to)"
        r"|姓名|名字|客户|联系人|收件人|收货人|寄件人|经理|负责人|经办人|员工|患者|医生|申请人|乘客|学生|老师|司机|人$|者$|员$|师$"
    ),
}
_PLACE_BEFORE = re.compile(
    r"(?:\b(?:to|in|from|at|near|via|towards|bound for|branch in)|在|位于|发往|运往|送往|送至|寄往|来自|前往|抵达|"
    r"从|至|到)\s*(?:the\s)?$",
    re.IGNORECASE,
)
_TO = re.compile(
    r"(?:\b(?:to|towards|bound for|arriving in|arrives in)|发往|运往|送往|送至|寄往|前往|抵达|到达|至|"
    r"到)\s*(?:the\s)?$",
    re.IGNORECASE,
)
_FROM = re.compile(r"(?:\b(?:from|leaving|departing)|来自|从|自|由)\s*(?:the\s)?$", re.IGNORECASE)
_PLACE_AFTER = re.compile(
    r"^(?:市|省|县|区|的(?:客户|顾客|用户|公司|分公司|供应商))|^\s(?:branch|office|warehouse|depot)\b", re.IGNORECASE
)
_MEASURES = "个件台套箱盒份只支条双把张瓶袋包辆部块卷根吨批"
_COUNTED_AFTER = re.compile(rf"^\s?\(?\d[\d,.]*\s?[{_MEASURES}]")
_COUNTED_BEFORE = re.compile(
    rf"(?:\d\s?[{_MEASURES}](?:的)?|\d\s?(?:x|×|pcs|pieces|units|boxes|sets|pairs|packs)(?:\s?of)?|\d)\s?$",
    re.IGNORECASE,
)
_COMPANY = re.compile(
    r"(?:公司|集团|银行|厂|事务所|研究院|中心|商行)$|\b(?:Ltd|Inc|LLC|GmbH|Corp|Co|AG|BV|PLC|SA|Group|Bank|"
    r"Logistics|Foods|Industries|Partners|Holdings|Systems|Technologies|Solutions)\.?$|\s&\s"
)
_DEPARTMENT = re.compile(r"(?:部|科|处|室|车间|组|中心)$|\b(?:Department|Dept|Division|Team|Office|Unit)\b")
_HAN_NAME = re.compile(r"[\u4e00-\u9fff]{2,4}")


def role_of(name: str, title: str = "") -> Role | None:
    """Of the last word of the name that says one: the name of a product is a product's."""
    said = (name.lower(), title.lower())
    return next((role for role, pattern in _ROLES.items() if any(map(pattern.search, said))), None)


def shows(role: Role, text: str, before: str, after: str) -> bool:
    """Whether a text, with what stands before and after it in the source, looks like a thing of that role."""
    if role is Role.DESTINATION:
        return bool(_TO.search(before)) and not _FROM.search(before)
    if role is Role.ORIGIN:
        return bool(_FROM.search(before)) and not _TO.search(before)
    if role is Role.PLACE:
        return bool(_PLACE_BEFORE.search(before) or _PLACE_AFTER.search(after))
    if role is Role.PRODUCT:
        return bool(_COUNTED_AFTER.search(after) or _COUNTED_BEFORE.search(before))
    if role is Role.ADDRESS:
        return False
    if role is Role.DEPARTMENT:
        return bool(_DEPARTMENT.search(text))
    if role is Role.COMPANY:
        return bool(_COMPANY.search(text))
    if _COMPANY.search(text):
        return False
    if _HAN_NAME.fullmatch(text):
        return text[0] in SURNAMES or text[:2] in SURNAMES
    return len(re.findall(r"(?:^|\s)[^\W\d_a-z]", text)) >= 2 and not _PLACE_BEFORE.search(before)
