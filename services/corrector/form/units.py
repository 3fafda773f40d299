# ruff: noqa: E501  tables of words are easier to read in long lines
"""Units, currencies and scale words of numbers that were written as text."""

from __future__ import annotations

import re
from decimal import Decimal

CURRENCIES = {
    "usd": "USD", "us$": "USD", "$": "$", "dollar": "USD", "dollars": "USD", "us dollars": "USD", "美元": "USD", "美金": "USD", "bucks": "USD",
    "eur": "EUR", "€": "EUR", "euro": "EUR", "euros": "EUR", "欧元": "EUR",
    "gbp": "GBP", "£": "GBP", "pound sterling": "GBP", "pounds": "GBP", "英镑": "GBP",
    "cny": "CNY", "rmb": "CNY", "¥": "¥", "cn¥": "CNY", "元": "CNY", "人民币": "CNY", "元整": "CNY", "元人民币": "CNY", "块": "CNY", "块钱": "CNY", "yuan": "CNY", "圆": "CNY", "圆整": "CNY",
    "jpy": "JPY", "jp¥": "JPY", "yen": "JPY", "日元": "JPY", "円": "JPY",
    "hkd": "HKD", "hk$": "HKD", "港元": "HKD", "港币": "HKD", "twd": "TWD", "nt$": "TWD", "新台币": "TWD",
    "aud": "AUD", "a$": "AUD", "cad": "CAD", "c$": "CAD", "chf": "CHF", "fr.": "CHF", "sgd": "SGD", "s$": "SGD",
    "krw": "KRW", "₩": "KRW", "韩元": "KRW", "inr": "INR", "₹": "INR", "rs": "INR", "rs.": "INR", "rub": "RUB", "₽": "RUB",
    "brl": "BRL", "r$": "BRL", "mxn": "MXN", "sek": "SEK", "nok": "NOK", "dkk": "DKK", "kr": "SEK", "pln": "PLN", "zł": "PLN",
    "try": "TRY", "₺": "TRY", "thb": "THB", "฿": "THB", "vnd": "VND", "₫": "VND", "ils": "ILS", "₪": "ILS", "zar": "ZAR", "cents": "cent",
}  # fmt: skip
"""As written → its code."""

SCALES = {
    "k": 3, "thousand": 3, "thousands": 3, "千": 3, "仟": 3, "万": 4, "萬": 4, "十万": 5, "百万": 6, "m": 6, "mn": 6, "mio": 6, "mio.": 6, "mm": 6,
    "million": 6, "millions": 6, "mil": 6, "千万": 7, "亿": 8, "億": 8, "b": 9, "bn": 9, "billion": 9, "billions": 9, "十亿": 9, "百": 2, "hundred": 2,
    "百亿": 10, "千亿": 11, "万亿": 12, "trillion": 12, "lakh": 5, "crore": 7,
}  # fmt: skip
"""Word → power of ten."""
UNSURE_SCALES = frozenset({"m", "mm", "b", "mil"})
"""Also units, or read differently in different places."""

DIMENSIONS: dict[str, dict[str, Decimal]] = {
    "mass": {
        "mcg": Decimal("0.000001"), "μg": Decimal("0.000001"), "ug": Decimal("0.000001"), "微克": Decimal("0.000001"), "mg": Decimal("0.001"), "毫克": Decimal("0.001"), "g": Decimal(1), "gram": Decimal(1), "grams": Decimal(1), "克": Decimal(1),
        "kg": Decimal(1000), "kgs": Decimal(1000), "kilo": Decimal(1000), "kilos": Decimal(1000), "kilogram": Decimal(1000),
        "kilograms": Decimal(1000), "公斤": Decimal(1000), "千克": Decimal(1000), "斤": Decimal(500), "市斤": Decimal(500),
        "t": Decimal(1_000_000), "ton": Decimal(1_000_000), "tons": Decimal(1_000_000), "tonne": Decimal(1_000_000), "tonnes": Decimal(1_000_000), "吨": Decimal(1_000_000),
        "lb": Decimal("453.59237"), "lbs": Decimal("453.59237"), "oz": Decimal("28.349523125"),
    },
    "length": {
        "mm": Decimal("0.001"), "毫米": Decimal("0.001"), "cm": Decimal("0.01"), "厘米": Decimal("0.01"), "公分": Decimal("0.01"),
        "m": Decimal(1), "meter": Decimal(1), "meters": Decimal(1), "metre": Decimal(1), "metres": Decimal(1), "米": Decimal(1),
        "km": Decimal(1000), "kilometers": Decimal(1000), "kilometres": Decimal(1000), "公里": Decimal(1000), "千米": Decimal(1000), "kilometer": Decimal(1000), "kilometre": Decimal(1000), "centimeters": Decimal("0.01"), "centimetres": Decimal("0.01"), "millimeters": Decimal("0.001"), "millimetres": Decimal("0.001"),
        "in": Decimal("0.0254"), "inch": Decimal("0.0254"), "inches": Decimal("0.0254"), "英寸": Decimal("0.0254"), "ft": Decimal("0.3048"), "mi": Decimal("1609.344"), "miles": Decimal("1609.344"),
    },
    "volume": {
        "ml": Decimal("0.001"), "毫升": Decimal("0.001"), "cc": Decimal("0.001"), "cl": Decimal("0.01"), "l": Decimal(1), "liter": Decimal(1), "liters": Decimal(1), "litre": Decimal(1), "litres": Decimal(1), "升": Decimal(1),
        "m3": Decimal(1000), "立方米": Decimal(1000),
    },
    "area": {"m2": Decimal(1), "sqm": Decimal(1), "sq m": Decimal(1), "square meters": Decimal(1), "square metres": Decimal(1), "mu": Decimal(2000) / 3, "亩": Decimal(2000) / 3, "平方米": Decimal(1), "平米": Decimal(1), "㎡": Decimal(1), "km2": Decimal(1_000_000), "平方公里": Decimal(1_000_000), "ha": Decimal(10_000), "公顷": Decimal(10_000)},
    "time": {
        "ms": Decimal("0.001"), "毫秒": Decimal("0.001"), "s": Decimal(1), "sec": Decimal(1), "secs": Decimal(1), "second": Decimal(1), "seconds": Decimal(1), "秒": Decimal(1), "秒钟": Decimal(1),
        "min": Decimal(60), "mins": Decimal(60), "minute": Decimal(60), "minutes": Decimal(60), "分钟": Decimal(60), "h": Decimal(3600), "hr": Decimal(3600), "hrs": Decimal(3600),
        "hour": Decimal(3600), "hours": Decimal(3600), "小时": Decimal(3600), "d": Decimal(86400), "day": Decimal(86400), "days": Decimal(86400), "天": Decimal(86400), "日": Decimal(86400),
        "week": Decimal(604800), "weeks": Decimal(604800), "周": Decimal(604800), "星期": Decimal(604800), "wk": Decimal(604800), "wks": Decimal(604800), "fortnight": Decimal(1209600), "fortnights": Decimal(1209600),
        "个小时": Decimal(3600), "个钟头": Decimal(3600), "钟头": Decimal(3600), "个星期": Decimal(604800), "个礼拜": Decimal(604800), "礼拜": Decimal(604800),
    },
    "months": {"month": Decimal(1), "months": Decimal(1), "mo": Decimal(1), "个月": Decimal(1), "月": Decimal(1), "个年头": Decimal(12), "year": Decimal(12), "years": Decimal(12), "yr": Decimal(12), "yrs": Decimal(12), "年": Decimal(12)},
    "data": {"b": Decimal(1), "byte": Decimal(1), "bytes": Decimal(1), "字节": Decimal(1), "kb": Decimal(1000), "mb": Decimal(10**6), "gb": Decimal(10**9), "tb": Decimal(10**12), "megabytes": Decimal(10**6), "gigabytes": Decimal(10**9), "kib": Decimal(1024), "mib": Decimal(1024**2), "gib": Decimal(1024**3)},
    "bits a second": {"kbps": Decimal(1), "kbit/s": Decimal(1), "mbps": Decimal(1000), "mbit/s": Decimal(1000), "gbps": Decimal(10**6), "gbit/s": Decimal(10**6)},
    "pressure": {"pa": Decimal(1), "帕": Decimal(1), "kpa": Decimal(1000), "千帕": Decimal(1000), "mpa": Decimal(10**6), "兆帕": Decimal(10**6), "bar": Decimal(100_000), "mbar": Decimal(100), "hpa": Decimal(100)},
    "frequency": {"hz": Decimal(1), "赫兹": Decimal(1), "khz": Decimal(1000), "千赫": Decimal(1000), "mhz": Decimal(10**6), "兆赫": Decimal(10**6), "ghz": Decimal(10**9)},
    "current": {"a": Decimal(1), "安": Decimal(1), "安培": Decimal(1), "ma": Decimal("0.001"), "毫安": Decimal("0.001")},
    "voltage": {"v": Decimal(1), "volt": Decimal(1), "volts": Decimal(1), "伏": Decimal(1), "伏特": Decimal(1), "kv": Decimal(1000), "千伏": Decimal(1000), "mv": Decimal("0.001"), "毫伏": Decimal("0.001")},
    "power": {"w": Decimal(1), "瓦": Decimal(1), "watt": Decimal(1), "watts": Decimal(1), "kw": Decimal(1000), "千瓦": Decimal(1000), "mw": Decimal(10**6)},
    "energy": {"wh": Decimal(1), "kwh": Decimal(1000), "千瓦时": Decimal(1000), "度": Decimal(1000), "mwh": Decimal(10**6)},
    "speed": {  # in metres an hour
        "m/s": Decimal(3600), "mps": Decimal(3600), "米/秒": Decimal(3600), "米每秒": Decimal(3600), "km/h": Decimal(1000), "kmh": Decimal(1000), "kph": Decimal(1000),
        "公里/小时": Decimal(1000), "千米/小时": Decimal(1000), "公里每小时": Decimal(1000), "mph": Decimal("1609.344"),
    },
    "temperature": {  # in ninths of five kelvins; see ZEROS
        "°c": Decimal(9), "c°": Decimal(9), "度c": Decimal(9), "摄氏度": Decimal(9), "celsius": Decimal(9), "°f": Decimal(5), "华氏度": Decimal(5), "fahrenheit": Decimal(5), "kelvin": Decimal(9),
    },
    "percent": {"%": Decimal(1), "percent": Decimal(1), "pct": Decimal(1), "per cent": Decimal(1), "percentage": Decimal(1), "百分比": Decimal(1), "百分率": Decimal(1), "‰": Decimal("0.1")},
}  # fmt: skip
"""Dimension → unit → how many of the dimension's base unit it is."""

COUNTS = frozenset(
    {
        "pcs", "pc", "pcs.", "piece", "pieces", "unit", "units", "item", "items", "ea", "each", "box", "boxes", "set", "sets", "pack", "packs", "bottle", "bottles",
        "person", "persons", "people", "guest", "guests", "employees", "staff", "members", "copies", "pages", "page", "times", "seats", "rooms", "night", "nights", "orders",
        "points", "pts", "stars", "star", "years old", "yo", "users", "hits", "rows", "lines", "pallets", "cartons", "bags", "rolls", "pairs", "pair", "dozen", "dozens", "打", "对", "sheets", "tickets", "shares",
        "个", "件", "只", "台", "套", "箱", "盒", "瓶", "包", "袋", "本", "张", "支", "条", "双", "份", "人", "名", "位", "次", "页", "岁", "间", "晚", "辆", "部", "把", "根", "块", "卷",
        "颗", "片", "组", "批", "户", "家", "层", "楼", "分", "号", "级", "股", "票", "吨次", "°", "rpm", "mah", "db", "ppm", "lux",
        "k", "px", "dpi", "cal", "kcal", "卡", "千卡", "大卡", "倍", "桶", "株", "棵", "头", "匹", "门", "课时", "学分", "工作日", "个工作日", "business days", "working days",
    }
)  # fmt: skip
"""What is counted; it goes without saying."""

PIECES = frozenset({"pcs", "pc", "piece", "pieces", "件", "件数", "个", "个数", "units", "items"})
"""Words of a field's name that count single things."""
BUNDLES = frozenset(
    {"box", "boxes", "set", "sets", "pack", "packs", "pairs", "pair", "dozen", "dozens", "打", "对", "双", "套", "箱", "盒", "包", "袋", "组", "批", "pallets", "cartons", "bags", "rolls", "卷", "条"}
)  # fmt: skip
"""Counts of which each may be several things."""
DOZENS = frozenset({"dozen", "dozens", "打", "gross"})
"""Numbers that stand like counts."""
ZEROS = {"°f": Decimal("2298.35"), "华氏度": Decimal("2298.35"), "fahrenheit": Decimal("2298.35"), "kelvin": Decimal(0)}
"""Where the scale of a temperature begins, in the base unit; of Celsius at 2458.35."""
UNSURE_SIZES = frozenset(
    {"b", "byte", "bytes", "kb", "mb", "gb", "tb", "mw", "mwh", "ton", "tons", "mpa", "megabytes", "gigabytes"}
)
"""Units whose size depends on who writes: 1,000 or 1,024, milli or mega, metric or short."""

APPROXIMATE = frozenset(
    {
        "about", "approx", "approx.", "approximately", "around", "roughly", "circa", "ca.", "ca", "~", "≈", "nearly", "almost", "over", "under", "more than", "less than", "at least", "at most",
        "up to", ">", "<", ">=", "<=", "≥", "≤", "±", "+/-", "约", "大约", "大概", "左右", "近", "超过", "不到", "不足", "至少", "至多", "最多", "最少", "以上", "以下", "+", "多", "余", "许", "or so", "上下", "将近", "plus", "from",
    }
)  # fmt: skip
"""The number is not the exact one."""

FILLERS = frozenset(
    {"only", "整", "正", "net", "total", "共", "共计", "合计", "总计", "计", "amount", "is", "=", ":", "：", "-", ",-", ".-", ".", "。", "no.", "no", "#", "第", "the", "per", "incl.", "in total", "含税", "不含税"}
)  # fmt: skip

_UNIT_OF = {unit: (dimension, size) for dimension, units in DIMENSIONS.items() for unit, size in units.items()}
_WORDS = re.compile(r"[a-z$%°]+|[\u4e00-\u9fff%]+")


def dimension_of(unit: str) -> tuple[str, Decimal] | None:
    """The dimension of a unit and its size in the dimension's base unit."""
    return _UNIT_OF.get(unit)


def converted(value: Decimal, unit: str, wanted: str) -> tuple[Decimal, bool] | None:
    """The value in another unit and whether the sizes are sure; None if the two measure different things."""
    (dimension, size), (other, target) = _UNIT_OF[unit], _UNIT_OF[wanted]
    if dimension != other:
        return None
    if unit == wanted or (size == target and ZEROS.get(unit) == ZEROS.get(wanted)):
        return value, True
    if dimension == "temperature":
        celsius = Decimal("2458.35")
        return (value * size + ZEROS.get(unit, celsius) - ZEROS.get(wanted, celsius)) / target, True
    return value * size / target, UNSURE_SIZES.isdisjoint((unit, wanted))


def unit_in(text: str) -> str:
    """The unit that a key or a description names: `weight_kg`, `length (cm)`, `重量（公斤）`; empty if none."""
    words: list[str] = _WORDS.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ").lower())
    for word in reversed(words):
        if word in _UNIT_OF and (len(word) > 1 or word in "%吨克"):
            return word
        for end in (3, 2):
            tail = word[-end:]
            if "\u4e00" <= word[0] <= "\u9fff" and tail in _UNIT_OF and len(tail) > 1:
                return tail
    return ""


def currency_in(text: str) -> str:
    """The currency that a key names, as a code: `amount_usd`; empty if none."""
    words: list[str] = _WORDS.findall(re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text).replace("_", " ").lower())
    codes = [CURRENCIES[word] for word in words if word in CURRENCIES and len(word) > 1]
    return codes[-1] if codes else ""
