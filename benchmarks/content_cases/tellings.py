# ruff: noqa: E501, SIM905  tables of words are easier to read in long lines
"""A record's values, and how a text shows them; all from a seed, all made up."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random
from typing import Any

MONTHS = "January February March April May June July August September October November December".split()
FIRST = "Agnes Boris Chloé Declan Esther Farid Gwen Hamza Ilse Jarek Keiko Leandro Marta Nils Odette Pavel Quentin Rosa Sven Thandi".split()
LAST = "Abara|Bjornstad|van der Meer|O'Neill|Castillo-Ruiz|Duquesne|Eriksen|Fontaine|Grabowski|Hollis|Ito|de Souza|Kowalczyk|Lindqvist|Moreau|Nakamura|Okafor|Petrov|Quigley|Stone".split(
    "|"
)
HEADS = (
    "Alder|Brightwater|Cobalt|Dunmore|Eastgate|Falkirk|Golden Reef|Highland|Ironbridge|Juniper|Kestrel|Lakeshore".split(
        "|"
    )
)
TAILS = "Foods|Instruments|Medical|Freight Ltd|& Sons|Systems Inc.|GmbH|Holdings|Tools|Energy AG|Laboratories|Trading Co.".split(
    "|"
)
CITIES = {
    "en": "Antwerp Bergen Cork Dijon Essen Florence Gdansk Halifax Izmir Kobe".split(),
    "zh": "杭州 武汉 昆明 大连 福州 无锡 郑州 贵阳".split(),
}
STREETS = "Mill Lane|Harbor Street|Oak Avenue|Station Road|Quarry Hill|King's Walk".split("|")
PRODUCTS = {
    "en": "angle grinder|ball valve|desk lamp|fuse box|torque wrench|cable drum|filter cartridge|pallet jack|spray nozzle|work bench".split(
        "|"
    ),
    "zh": "打印机 投影仪 空压机 交换机 离心泵 变压器 服务器 除湿机 电焊机 扫描仪".split(),
}
SERVICES = "checkout API|login page|mail relay|reporting database|ticket queue|payment gateway".split("|")
CAUSES = "an expired certificate|a full disk|a faulty network card|a wrong configuration|a power failure|a software bug".split(
    "|"
)
SCHOOLS = "Riverside Primary School|St. Anne's College|Northfield High School|Maple Grove Academy".split("|")
HOTELS = "云栖酒店 海景大酒店 锦程宾馆 梧桐度假酒店 星河国际酒店".split()
DEPARTMENTS = "财务部 市场部 研发中心 人力资源部 客户服务部 生产一车间".split()
SURNAMES = "孙 钱 郑 冯 许 何 吕 曹 严 潘 司马 上官 诸葛 于 和 高".split()
GIVEN = "建华 雪梅 子轩 丽 海涛 思远 桂英 磊 佳怡 国强 文 晓东 玉兰 鹏".split()
PLACES = "杭州|武汉|大连|福州|合肥|无锡".split("|")
BODIES = "瑞丰 天工 联创 恒通 博雅 新源 宏图 康宁 正大 安和".split()
TRADES = "电子 机械 商贸 物流 食品 医疗器械 检测技术 建筑工程".split()
ENDS = "有限公司 股份有限公司 有限责任公司 集团".split()
ROADS = "中山路 解放大道 人民东路 科技园南路 滨江大道 文化街".split()
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()


def person(draw: Random, language: str) -> str:
    if language == "zh":
        return draw.choice(SURNAMES) + draw.choice(GIVEN)
    return f"{draw.choice(FIRST)} {draw.choice(LAST)}"


def company(draw: Random, language: str) -> str:
    if language == "zh":
        return draw.choice(("", *PLACES)) + draw.choice(BODIES) + draw.choice(TRADES) + draw.choice(ENDS)
    return f"{draw.choice(HEADS)} {draw.choice(TAILS)}"


def address(draw: Random, language: str) -> str:
    if language == "zh":
        return f"{draw.choice(PLACES)}市{draw.choice('东西南北')}{draw.choice('湖山城江')}区{draw.choice(ROADS)}{draw.randint(1, 399)}号"
    return f"{draw.randint(2, 199)} {draw.choice(STREETS)}, {draw.choice(CITIES['en'])}"


def phone(draw: Random, language: str) -> str:
    if language == "zh":
        return f"1{draw.choice('3578')}{draw.randint(100_000_000, 999_999_999)}"
    return f"+{draw.randint(30, 49)} {draw.randint(100, 999)} {draw.randint(100_000, 999_999)}"


def email(draw: Random) -> str:
    return f"{draw.choice(('office', 'anna', 'h.berg', 'zhou', 'info', 'desk2'))}@{draw.choice(('alder', 'reef-tools', 'kestrel', 'mail77'))}.example"


def make(draw: Random, maker: str, language: str, made: dict[str, Any]) -> Any:
    """A value of a kind, e.g. `whole:2:80`."""
    kind, _, detail = maker.partition(":")
    low, _, high = detail.partition(":")
    match kind:
        case "person":
            return person(draw, language)
        case "company":
            return company(draw, language)
        case "address":
            return address(draw, language)
        case "phone":
            return phone(draw, language)
        case "email":
            return email(draw)
        case "code":
            return f"{detail}{draw.randint(1000, 999_999)}"
        case "ref":
            return "".join(draw.choice("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(5)) + draw.choice("23456789")
        case "seat":
            return f"{draw.randint(1, 39)}{draw.choice('ABCDEF')}"
        case "date":
            return (date(2022, 1, 1) + timedelta(days=draw.randrange(1400))).isoformat()
        case "after":
            return (date.fromisoformat(made[detail]) + timedelta(days=draw.randint(1, 300))).isoformat()
        case "money":
            return draw.choice(
                (draw.randint(20, 900) * 10, draw.randint(100, 99_999), round(draw.uniform(50, 30_000), 2))
            )
        case "whole":
            return draw.randint(int(low), int(high))
        case "decimal":
            return round(draw.uniform(float(low), float(high)), 1)
        case "flag":
            return draw.random() < 0.5
        case "enum":
            return draw.choice(detail.split(","))
    tables = {
        "city": CITIES[language],
        "product": PRODUCTS[language],
        "service": SERVICES,
        "cause": CAUSES,
        "school": SCHOOLS,
        "hotel": HOTELS,
        "department": DEPARTMENTS,
    }
    return draw.choice(tables[kind])


def shown(draw: Random, value: Any, maker: str, language: str) -> str:
    """The value as prose has it."""
    kind = maker.partition(":")[0]
    if kind in ("date", "after"):
        return told_day(draw, value, language)
    if kind == "money":
        return draw.choice((f"{value:,.2f}", f"{value:,}", str(value)))
    if kind == "whole" and language == "en" and value <= 12 and draw.random() < 0.3:
        return WORDS[value]
    if kind == "whole" and value > 999:
        return draw.choice((f"{value:,}", str(value)))
    return str(value)


def told_day(draw: Random, value: str, language: str) -> str:
    year, month, day = map(int, value.split("-"))
    if language == "zh":
        return draw.choice((f"{year}年{month}月{day}日", f"{year}年{month}月{day}日", value, f"{year}/{month}/{day}"))
    name = MONTHS[month - 1]
    return draw.choice((f"{day} {name} {year}", f"{name} {day}, {year}", value, f"{day} {name[:3]} {year}"))
