# ruff: noqa: E501, SIM905  tables of words and templates are easier to read in long lines
"""Made-up values: names, companies, dates, amounts, identifiers, in English and Chinese."""

from __future__ import annotations

import datetime as dt
from random import Random

GIVEN = "Anna Marco Priya Tomas Elena Yusuf Clara Hugo Naomi Viktor Leila Owen Ingrid Rafael Sofia Dmitri Amara Felix Greta Jonas Mina Pavel Ruth Simon Tessa Wanda".split()
FAMILY = "Keller Rossi Sharma Novak Petrova Demir Fischer Laurent Okafor Lindqvist Haddad Byrne Solberg Mendes Costa Volkov Mensah Brandt Hansen Weber Castillo Dvorak Moreau Stein Walker Zielinski".split()
FIRMS = "Northwind Halden Brightwater Castor Meridian Oakfield Pinecrest Redstone Silverline Tidewell Umbra Vantage Westbrook Zephyr Alderon Blueharbor Cobalt Driftwood Everline Foxglove Granite Harrow".split()
TRADES = "Trading Logistics Electronics Packaging Instruments Textiles Foods Energy Medical Printing Machinery Furniture".split()
FORMS = ["Ltd", "Inc", "GmbH", "LLC", "Group", "Co., Ltd."]
CITIES = "Hamburg Lyon Porto Gdansk Antwerp Bergen Turin Leeds Seville Malmo Rotterdam Trieste".split()
STREETS = "Harbour Mill Station Church Linden Castle Market River Garden Bridge".split()
PRODUCTS = ["steel brackets", "label printers", "office chairs", "water pumps", "LED panels", "copper cable", "barcode scanners", "pallet racks", "filter cartridges",
            "safety helmets", "hydraulic hoses", "thermal sensors", "packing tape", "router modules", "desk lamps", "gear boxes"]  # fmt: skip
SURNAMES = "王李张刘陈杨赵黄周吴徐孙胡朱高林何郭马罗"
GIVEN_ZH = "伟 芳 敏 静 磊 洋 勇 艳 杰 娟 涛 明轩 子涵 雨桐 浩然 思远 佳怡 志强 海燕 晓东 文博 丽华 建国 秀英".split()
PLACES_ZH = "上海 深圳 杭州 苏州 成都 武汉 青岛 宁波 厦门 西安 天津 南京".split()
FIRMS_ZH = "明达 华信 恒远 博睿 天元 鼎盛 瑞丰 中联 佳讯 蓝海 新锐 宏图 安泰 启明 融创 德邦 星辰 云帆".split()
TRADES_ZH = "贸易 物流 电子 包装 仪器 纺织 食品 能源 医疗器械 印刷 机械 科技".split()
ROADS_ZH = "中山路 人民路 解放路 建设路 和平路 长江路 文化路 学府路".split()
PRODUCTS_ZH = "钢支架 标签打印机 办公椅 水泵 灯板 铜电缆 扫码枪 货架 滤芯 安全帽 液压软管 温度传感器 封箱胶带 路由模块 台灯 减速机".split()
MONTHS = "January February March April May June July August September October November December".split()


def person(rng: Random, language: str) -> str:
    if language == "zh":
        return rng.choice(SURNAMES) + rng.choice(GIVEN_ZH)
    return f"{rng.choice(GIVEN)} {rng.choice(FAMILY)}"


def company(rng: Random, language: str) -> str:
    if language == "zh":
        return f"{rng.choice(PLACES_ZH)}{rng.choice(FIRMS_ZH)}{rng.choice(TRADES_ZH)}有限公司"
    return f"{rng.choice(FIRMS)} {rng.choice(TRADES)} {rng.choice(FORMS)}"


def address(rng: Random, language: str) -> str:
    if language == "zh":
        return f"{rng.choice(PLACES_ZH)}市{rng.choice(ROADS_ZH)}{rng.randint(2, 980)}号{rng.randint(1, 30)}层"
    return f"{rng.randint(2, 320)} {rng.choice(STREETS)} Street, {rng.choice(CITIES)}"


def city(rng: Random, language: str) -> str:
    return rng.choice(PLACES_ZH if language == "zh" else CITIES)


def product(rng: Random, language: str) -> str:
    return rng.choice(PRODUCTS_ZH if language == "zh" else PRODUCTS)


def date(rng: Random) -> str:
    return (dt.date(2023, 1, 1) + dt.timedelta(days=rng.randint(0, 1000))).isoformat()


def later(rng: Random, day: str, low: int = 3, high: int = 120) -> str:
    return (dt.date.fromisoformat(day) + dt.timedelta(days=rng.randint(low, high))).isoformat()


def amount(rng: Random, low: int = 100, high: int = 90_000) -> float | int:
    whole = rng.randint(low, high)
    return whole if rng.random() < 0.6 else round(whole + rng.randint(1, 99) / 100, 2)


def code(rng: Random, prefix: str) -> str:
    return (
        f"{prefix}-{rng.randint(2021, 2026)}-{rng.randint(100, 99999):05d}"
        if rng.random() < 0.5
        else f"{prefix}{rng.randint(100000, 9999999)}"
    )


def phone(rng: Random, language: str) -> str:
    if language == "zh":
        return f"1{rng.choice('3578')}{rng.randint(0, 9)}{rng.randint(10_000_000, 99_999_999)}"
    return f"+{rng.choice([44, 49, 33, 31])} {rng.randint(20, 799)} {rng.randint(1_000_000, 9_999_999)}"


def email(rng: Random, who: str = "") -> str:
    name = (
        who.lower().replace(" ", ".") if who.isascii() and who else f"{rng.choice(GIVEN).lower()}{rng.randint(1, 99)}"
    )
    return f"{name}@{rng.choice(FIRMS).lower()}.example"


def shown(value: object, style: str, rng: Random) -> str:
    """A value as prose writes it: `date`, `money` (digits only), `zhdate` or as it is."""
    if style == "date":
        year, month, day = str(value).split("-")
        name = MONTHS[int(month) - 1]
        return rng.choice(
            [f"{int(day)} {name} {year}", f"{name} {int(day)}, {year}", str(value), f"{int(day)} {name[:3]} {year}"]
        )
    if style == "zhdate":
        year, month, day = str(value).split("-")
        return rng.choice(
            [f"{year}年{int(month)}月{int(day)}日", f"{year}年{month}月{day}日", str(value), f"{year}/{month}/{day}"]
        )
    if style == "money":
        assert isinstance(value, int | float)
        return (
            f"{value:,}"
            if isinstance(value, int) and rng.random() < 0.5
            else f"{value:,.2f}"
            if rng.random() < 0.7
            else str(value)
        )
    return str(value)
