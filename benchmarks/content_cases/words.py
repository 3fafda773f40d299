"""Names and things that the cases speak of; all made up."""

from __future__ import annotations

import random

PERSONS = (
    "Harriet Vance",
    "Tomás Oliveira",
    "Priya Raman",
    "Douglas Finch",
    "Mei-Ling Carter",
    "Yusuf Demir",
    "Anneke Visser",
    "Rowan Clarke",
    "Ines Marchetti",
    "Paul Brandt",
)
COMPANIES = (
    "Norwick Metals",
    "Blue Harbour Ltd",
    "Castellan Foods",
    "Ardent Robotics",
    "Greyfield Logistics",
    "Pell & Hart",
    "Lindgren Paper",
    "Solway Textiles",
)
CITIES = ("Rotterdam", "Leeds", "Tallinn", "Osaka", "Porto", "Denver", "Graz", "Turku")
GOODS = (
    "hydraulic pump",
    "steel bracket",
    "toner cartridge",
    "office chair",
    "server rack",
    "safety helmet",
    "copper cable",
    "label printer",
)
ZH_PERSONS = ("张伟", "李秀英", "王芳", "刘洋", "陈静", "杨志强", "赵敏", "欧阳文静", "周建国", "吴晓燕")
ZH_COMPANIES = (
    "北辰科技有限公司",
    "华泰建材有限公司",
    "金穗食品有限公司",
    "远航物流有限公司",
    "启明软件有限公司",
    "东湖机电有限公司",
)
ZH_CITIES = ("苏州", "成都", "厦门", "青岛", "西安", "长沙", "宁波", "合肥")
ZH_GOODS = ("液压泵", "钢支架", "墨盒", "办公椅", "服务器机柜", "安全帽", "铜电缆", "标签打印机")
MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def day(draw: random.Random) -> str:
    """An ISO date."""
    return f"20{draw.randint(21, 27)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"


def code(draw: random.Random, prefix: str, digits: int = 5) -> str:
    return f"{prefix}-" + "".join(draw.choice("0123456789") for _ in range(digits))


def told_day(draw: random.Random, iso: str) -> str:
    """The date as English prose has it."""
    year, month, number = iso.split("-")
    name = MONTHS[int(month) - 1]
    return draw.choice((f"{int(number)} {name} {year}", f"{name} {int(number)}, {year}", iso))


def told_day_zh(draw: random.Random, iso: str) -> str:
    year, month, number = iso.split("-")
    return draw.choice((f"{year}年{int(month)}月{int(number)}日", iso))
