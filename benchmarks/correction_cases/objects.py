# ruff: noqa: E501  lists of forms are easier to read in long lines
"""Business objects in English and Chinese: their fields, their schemas, and instances of them.

A field is a name and a kind; the kind gives its schema and its values. Objects are split by name into those that one may
look at while working on the corrector (`train`) and those that measure it (`unseen`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from benchmarks.correction_cases import words


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    """`person`, `company`, `city`, `id`, `phone`, `email`, `int`, `amount`, `rate`, `weight`, `date`, `time`, `bool`,
    `status`, `priority`, `tags`, `note` (nullable), `text`, `lines` (objects), `table` (rows), `party` (an object)."""
    optional: bool = False


@dataclass(frozen=True)
class Business:
    name: str
    language: str
    part: str
    fields: tuple[Field, ...]
    closed: bool
    prefix: str
    """Of its identifiers."""


def businesses(part: str) -> list[Business]:
    """The objects of a part, in a fixed order."""
    return [business for business in _ALL if business.part == part]


def schema_of(business: Business, rng: random.Random) -> dict[str, Any]:
    """A JSON Schema; how it says what it says varies with `rng`."""
    uses_definitions = rng.random() < 0.3
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    for field in business.fields:
        schema = _schema(field, business, rng)
        if uses_definitions and schema.get("type") == "object":
            definitions[field.kind] = schema
            schema = {"$ref": f"#/$defs/{field.kind}"}
        properties[field.name] = schema
    required = [field.name for field in business.fields if not field.optional]
    schema = {"type": "object", "properties": properties, "required": required}
    if definitions:
        schema["$defs"] = definitions
    if business.closed:
        schema["additionalProperties"] = False
    return schema


def instance_of(business: Business, rng: random.Random) -> dict[str, Any]:
    """Values of all fields; optional ones are left out at times."""
    fields = [field for field in business.fields if not field.optional or rng.random() < 0.7]
    return {field.name: _value(field.kind, business, rng) for field in fields}


def _schema(field: Field, business: Business, rng: random.Random) -> dict[str, Any]:
    said = _SCHEMAS.get(field.kind)
    if said is not None:
        schema = dict(said)
    elif field.kind == "id":
        schema = {"type": "string", "pattern": f"^{business.prefix}-[0-9]{{5}}$"}
    elif field.kind == "status":
        schema = {"enum": list(words.STATUS[business.language])}
    elif field.kind == "priority":
        schema = {"type": "string", "enum": list(words.PRIORITY[business.language])}
    elif field.kind == "note":
        schema = (
            {"anyOf": [{"type": "string"}, {"type": "null"}]} if rng.random() < 0.5 else {"type": ["string", "null"]}
        )
    elif field.kind == "table":
        row = {
            "type": "array",
            "prefixItems": [{"type": "string"}, {"type": "integer"}, {"type": "number"}],
            "minItems": 3,
            "maxItems": 3,
        }
        schema = {"type": "array", "items": row}
    else:
        schema = _nested(field.kind, business.language)
    if rng.random() < 0.2:
        schema["description"] = field.name.replace("_", " ")
    return schema


def _nested(kind: str, language: str) -> dict[str, Any]:
    sku, quantity, price, name, city = words.NESTED[language]
    if kind == "lines":
        item = {
            "type": "object",
            "properties": {
                sku: {"type": "string"},
                quantity: {"type": "integer", "minimum": 1},
                price: {"type": "number"},
            },
            "required": [sku, quantity, price],
            "additionalProperties": False,
        }
        return {"type": "array", "items": item, "minItems": 1}
    return {
        "type": "object",
        "properties": {name: {"type": "string"}, city: {"type": "string"}},
        "required": [name, city],
    }


_SCHEMAS: dict[str, dict[str, Any]] = {
    **{kind: {"type": "string"} for kind in ("person", "company", "city", "phone", "text")},
    "email": {"type": "string", "format": "email"},
    "int": {"type": "integer", "minimum": 0},
    "amount": {"type": "number", "minimum": 0},
    "rate": {"type": "number", "minimum": 0, "maximum": 100},
    "weight": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "date-time"},
    "bool": {"type": "boolean"},
    "tags": {"type": "array", "items": {"type": "string"}},
}


def _value(kind: str, business: Business, rng: random.Random) -> Any:
    language = business.language
    match kind:
        case "person" | "company" | "city" | "text":
            return rng.choice(words.TEXTS[language][kind])
        case "id":
            return f"{business.prefix}-{rng.randrange(10_000, 99_999)}"
        case "phone":
            return (
                f"1{rng.randrange(30, 99)}{rng.randrange(10**7, 10**8)}"
                if language == "zh"
                else f"+1-{rng.randrange(200, 999)}-555-{rng.randrange(1000, 9999)}"
            )
        case "email":
            return f"{rng.choice(words.MAIL)}{rng.randrange(100)}@example.com"
        case "int":
            return rng.randrange(1, 500)
        case "amount":
            return (
                round(rng.uniform(1_000, 90_000), rng.choice((0, 1, 2)))
                if rng.random() < 0.8
                else rng.randrange(1_000, 999_999)
            )
        case "rate":
            return rng.choice((5, 7.5, 12, 13, 15, 20, 33.3))
        case "weight":
            return rng.choice((0.5, 2, 3.25, 12, 40, 75.5))
        case "date":
            return f"20{rng.randrange(19, 27)}-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}"
        case "time":
            return f"2025-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z"
        case "bool":
            return rng.random() < 0.5
        case "status":
            return rng.choice(words.STATUS[language])
        case "priority":
            return rng.choice(words.PRIORITY[language])
    return _composed(kind, language, rng)


def _composed(kind: str, language: str, rng: random.Random) -> Any:
    sku, quantity, price, name, city = words.NESTED[language]
    match kind:
        case "tags":
            return rng.sample(words.TAGS[language], rng.randrange(1, 4))
        case "note":
            return rng.choice([None, *words.TEXTS[language]["text"]])
        case "lines":
            return [
                {
                    sku: f"P{rng.randrange(100, 999)}",
                    quantity: rng.randrange(1, 50),
                    price: round(rng.uniform(1, 900), 2),
                }
                for _ in range(rng.randrange(1, 4))
            ]
        case "table":
            return [
                [rng.choice(words.TAGS[language]), rng.randrange(1, 99), round(rng.uniform(1, 99), 2)] for _ in range(3)
            ]
    return {name: rng.choice(words.TEXTS[language]["person"]), city: rng.choice(words.TEXTS[language]["city"])}


def _business(name: str, language: str, part: str, prefix: str, fields: str, *, closed: bool = True) -> Business:
    made = []
    for entry in fields.split():
        field, kind = entry.replace("·", " ").split(":")
        made.append(Field(field.removesuffix("?"), kind, optional=field.endswith("?")))
    return Business(name, language, part, tuple(made), closed, prefix)


_ALL = (
    _business(
        "invoice",
        "en",
        "train",
        "INV",
        "invoice_number:id customer:company issue_date:date total_amount:amount paid:bool status:status lines:lines notes?:note",
    ),
    _business(
        "employee",
        "en",
        "train",
        "EMP",
        "employee_id:id full_name:person hire_date:date annual_salary:amount full_time:bool email:email skills?:tags",
        closed=False,
    ),
    _business(
        "shipment",
        "en",
        "train",
        "SHP",
        "trackingCode:id receiver:party shippedAt:time weightKg:weight parcels:int insured:bool readings:table remarks?:note",
    ),
    _business(
        "order",
        "zh",
        "train",
        "DD",
        "订单编号:id 客户姓名:person 下单日期:date 订单金额:amount 是否付款:bool 状态:status 明细:lines 备注?:note",
    ),
    _business(
        "contract",
        "zh",
        "train",
        "HT",
        "合同编号:id 甲方:company 签订日期:date 合同总价:amount 份数:int 已盖章:bool 联系电话:phone",
    ),
    _business(
        "member",
        "zh",
        "train",
        "HY",
        "会员号:id 姓名:person 城市:city 注册日期:date 积分:int 启用:bool 读数:table 标签?:tags",
        closed=False,
    ),
    _business(
        "booking",
        "en",
        "unseen",
        "BKG",
        "bookingRef:id guestName:person checkIn:date nights:int roomRate:amount breakfast:bool priority:priority contact:phone requests?:note",
    ),
    _business(
        "claim",
        "en",
        "unseen",
        "CLM",
        "claim-id:id policyholder:person incident_date:date claimed_amount:amount deductible_rate:rate approved:bool state:status insurer:company",
    ),
    _business(
        "purchase",
        "en",
        "unseen",
        "PO",
        "po_no:id supplier:company delivery_date:date net_value:amount units:int urgent:bool items:lines approver:party labels?:tags",
    ),
    _business(
        "asset",
        "en",
        "unseen",
        "AST",
        "Asset·ID:id Location:city Purchase·Date:date Book·Value:amount Gross·Weight:weight In·Service:bool Readings:table Remark?:note",
        closed=False,
    ),
    _business(
        "visit",
        "en",
        "unseen",
        "VST",
        "visitId:id patient:person scheduledAt:time durationMinutes:int fee:amount firstVisit:bool channel:priority email:email reasons:tags",
    ),
    _business(
        "purchase_zh",
        "zh",
        "unseen",
        "CG",
        "采购单号:id 供应商:company 交货日期:date 含税金额:amount 件数:int 加急:bool 优先级:priority 物料:lines 说明?:note",
    ),
    _business(
        "expense",
        "zh",
        "unseen",
        "BX",
        "报销单号:id 申请人:person 发生日期:date 报销金额:amount 发票张数:int 已审批:bool 状态:status 部门城市:city 标签:tags",
    ),
    _business(
        "device",
        "zh",
        "unseen",
        "SB",
        "deviceNo:id 负责人:party 购置日期:date 原值:amount 重量:weight 在用:bool 折旧率:rate 读数:table",
        closed=False,
    ),
    _business(
        "visit_zh",
        "zh",
        "unseen",
        "MZ",
        "就诊号:id 患者姓名:person 预约时间:time 费用:amount 年龄:int 初诊:bool 手机号:phone 邮箱:email 症状:tags 医嘱?:note",
    ),
    _business(
        "lease",
        "zh",
        "unseen",
        "ZL",
        "lease_no:id 承租人:person 出租方:company 起租日期:date 月租金:amount 租期月数:int 可续租:bool 等级:priority 备注?:note",
    ),
)
