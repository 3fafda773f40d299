"""The leaves that a schema asks for, with what an object has there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from services.corrector.content.asides import is_of_others
from services.corrector.content.heads import heads
from services.corrector.content.labels import Label, labels
from services.corrector.content.mentions import Kind, Mention
from services.corrector.content.roles import Role, role_of
from services.corrector.form.shape import Shape, Shapes
from services.corrector.form.units import dimension_of, unit_in
from services.corrector.form.values import is_number, plain_number
from services.corrector.proposals import ABSENT
from stagemesh.validation.pointer import Path, to_pointer

MAX_FIELDS = 150
_ID_NAME = re.compile(
    r"(?:^|[_\- ])(?:id|no|number|code|sku|ref|reference|serial|plate|iban|account|zip|postal)(?:$|[_\- ])|编号|"
    r"单号|号码|号$|账号|代码",
    re.IGNORECASE,
)
_PHONE_NAME = re.compile(r"phone|mobile|tel\b|telephone|fax|电话|手机|联系方式", re.IGNORECASE)
_ADDRESS_NAME = re.compile(r"(?:^|_|\b)(?:address|ship_to|location|street)(?:$|_|\b)|地址|地点|住址", re.IGNORECASE)
_EMAIL_NAME = re.compile(r"e?-?mail|邮箱|邮件", re.IGNORECASE)
_DATE_NAME = re.compile(r"(?:^|_)date(?:$|_)|日期|_on$|(?<=[a-z])Date$", re.IGNORECASE)
_RATE_NAME = re.compile(r"rate|percent|pct|discount|tax|vat|interest|share|ratio|率|比例|折扣|税|百分", re.IGNORECASE)
_COUNT_NAME = re.compile(
    r"quantity|qty|count|number_of|num_|days|months|years|nights|guests|数量|件数|人数|天数|月数|年数", re.IGNORECASE
)
_QUANTITY_NAME = re.compile(r"quantity|qty|pieces|(?:^|_)units?$|数量|件数", re.IGNORECASE)
_MONEY_NAME = re.compile(
    r"price|amount|total|cost|fee|rent|salary|deposit|premium|budget|价|金额|费|租金|工资|押金|款$", re.IGNORECASE
)
_SCALED_NAME = re.compile(
    r"万|亿|[百千]元|\b(?:thousands?|millions?|billions?|cents|pence|k ?(?:eur|usd|cny|rmb)|[km])\b|[(（]分[)）]"
)
"""Its values are counted in another scale than sources have."""
_THOUSANDS = re.compile(r"[1-9]\d{0,2}\.\d{3}")
"""No amount of money has three decimals."""
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")


class Sort(Enum):
    """What kind of value a field holds, as far as a source is searched for it."""

    NUMBER = "number"
    DATE = "date"
    EMAIL = "email"
    PHONE = "phone"
    CODE = "code"
    CHOICE = "choice"
    BOOLEAN = "boolean"
    TEXT = "text"


_KINDS = {
    Sort.NUMBER: {Kind.NUMBER},
    Sort.DATE: {Kind.DATE},
    Sort.EMAIL: {Kind.EMAIL},
    Sort.PHONE: {Kind.PHONE, Kind.CODE},
    Sort.CODE: {Kind.CODE, Kind.NUMBER, Kind.PHONE},
    Sort.TEXT: {Kind.NAME},
}


@dataclass(frozen=True, eq=False)
class Field:
    path: Path
    shape: Shape
    value: Any
    """ABSENT where the object has nothing there."""
    sort: Sort
    labels: tuple[Label, ...]
    unit: str
    """That the name or description says."""
    role: Role | None = None
    """Of a text."""
    heads: tuple[str, ...] = ()
    """How a form may head it."""

    @property
    def pointer(self) -> str:
        return to_pointer(self.path)

    @property
    def name(self) -> str:
        return str(self.path[-1]) if self.path else ""

    @property
    def about(self) -> str:
        """All that its name, title and description say, normalised."""
        return " ".join(self.heads)

    @property
    def counts(self) -> bool:
        """Its name says that things are counted."""
        return _QUANTITY_NAME.search(self.name) is not None

    @property
    def is_of_others(self) -> bool:
        """Whether it is itself about something earlier, next or planned: words that say so tell nothing against it."""
        return any(map(is_of_others, self.heads))

    @property
    def is_money(self) -> bool:
        return _MONEY_NAME.search(self.name) is not None

    def value_of(self, mention: Mention) -> Any:
        """The mention as a value of this field; ABSENT where it is none."""
        if mention.kind not in _KINDS.get(self.sort, ()):
            return ABSENT
        value: Any = mention.text
        if self.sort is Sort.NUMBER:
            if mention.number is None:
                return ABSENT
            value = plain_number(mention.number)
            if isinstance(value, Decimal) or (
                "integer" in self.shape.types and not isinstance(value, int) and "number" not in self.shape.types
            ):
                return ABSENT
            if not self._measures(mention):
                return ABSENT
        elif self.sort is Sort.DATE:
            value = mention.date
        return value if value != "" and self.shape.accepts(value) else ABSENT

    def _measures(self, mention: Mention) -> bool:
        """Whether a number is of what the field measures, as far as both say what that is."""
        if mention.is_word or any(map(_SCALED_NAME.search, self.heads)):
            return False
        if self.is_money and _THOUSANDS.fullmatch(mention.text):
            return False
        if mention.unit == "‰":
            return self.unit == "‰" or "permille" in self.name.lower()
        if mention.unit == "%":
            return self.unit == "%" or _RATE_NAME.search(self.name) is not None
        mine, its = dimension_of(self.unit), dimension_of(mention.unit)
        if mine is not None and (mention.currency or (its is not None and mine != its)):
            return False
        return not (mention.currency and _COUNT_NAME.search(self.name))


def fields(schema: Any, value: Any) -> list[Field]:
    """Leaves of objects: those that are there, and those that are required and are not. Items of arrays are walked."""
    shapes = Shapes(schema)
    found: list[Field] = []
    for field in _walk(shapes, shapes.of(schema), value, (), ("", "", "")):
        found.append(field)
        if len(found) > MAX_FIELDS:
            break
    return found


def empty_arrays(value: Any, path: Path = ()) -> Iterator[str]:
    """Pointers of lists without items."""
    if value == [] and isinstance(value, list):
        yield to_pointer(path)
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in parts:
        yield from empty_arrays(part, (*path, name))


def optional_missing(schema: Any, value: Any) -> bool:
    """Whether the object, or one within it, lacks something that it may have but need not."""
    shapes = Shapes(schema)

    def lacks(shape: Shape, part: Any) -> bool:
        if isinstance(part, list):
            return any(lacks(shapes.of(shape.items(index)), item) for index, item in enumerate(part))
        if not isinstance(part, dict):
            return False
        return any(
            lacks(shapes.of(inner), part[name]) if name in part else name not in shape.required
            for name, inner in shape.properties.items()
        )

    return lacks(shapes.of(schema), value)


def _walk(shapes: Shapes, shape: Shape, value: Any, path: Path, about: tuple[str, str, str]) -> Iterator[Field]:
    if isinstance(value, dict):
        properties, required = shape.properties, set(shape.required)
        for name, schema in properties.items():
            if name in value or name in required:
                inner = shapes.of(schema)
                said = (name, _text(inner, "title"), _text(inner, "description"))
                yield from _walk(shapes, inner, value.get(name, ABSENT), (*path, name), said)
        for name in value.keys() - properties.keys():
            extra = shape.keywords.get("additionalProperties", True)
            yield from _walk(shapes, shapes.of(extra), value[name], (*path, name), (name, "", ""))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(shapes, shapes.of(shape.items(index)), item, (*path, index), about)
    elif value is ABSENT and shape.types == {"object"}:
        yield from _walk(shapes, shape, {}, path, about)
    elif value is not ABSENT or not shape.types & {"object", "array"}:
        sort = _sort(shape, value, about[0])
        role = role_of(about[0], about[1]) if sort is Sort.TEXT else None
        if role is None and sort is Sort.TEXT and _ADDRESS_NAME.search(f"{about[0]} {about[1]}"):
            role = Role.ADDRESS
        unit = unit_in(about[0]) or unit_in(about[2])
        yield Field(path, shape, value, sort, labels(*about), unit, role, heads(*about))


def _text(shape: Shape, keyword: str) -> str:
    said = shape.keywords.get(keyword)
    return said if isinstance(said, str) else ""


def _sort(shape: Shape, value: Any, name: str) -> Sort:
    if shape.enum is not None:
        return Sort.CHOICE
    if isinstance(value, bool) or shape.types == {"boolean"}:
        return Sort.BOOLEAN
    if is_number(value) or (shape.types <= {"number", "integer", "null"} and shape.is_typed):
        return Sort.NUMBER
    kind = shape.keywords.get("format")
    if (
        kind == "date"
        or (isinstance(value, str) and _ISO.fullmatch(value))
        or (kind is None and "pattern" not in shape.keywords and _DATE_NAME.search(name) and value is ABSENT)
    ):
        return Sort.DATE
    if kind == "email" or _EMAIL_NAME.search(name):
        return Sort.EMAIL
    if _PHONE_NAME.search(name):
        return Sort.PHONE
    pattern = shape.keywords.get("pattern")
    if _ADDRESS_NAME.search(name) and pattern is None:
        return Sort.TEXT
    has_digits = isinstance(value, str) and any(map(str.isdigit, value)) and not re.search(r"\s.*\s", value)
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    if _ID_NAME.search(spaced) or has_digits or (isinstance(pattern, str) and re.search(r"\\d|0-9", pattern)):
        return Sort.CODE
    return Sort.TEXT
