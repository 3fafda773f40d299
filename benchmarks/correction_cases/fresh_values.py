# ruff: noqa: E501  tables of forms are easier to read in long lines
"""Fields with the forms in which their value is told, of kinds that the corrector was not made for.

Each line is a field, its schema, the value, and texts that say it; UNKNOWN where a text leaves open what is meant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

UNKNOWN = object()
"""No reading of the text is the right one: a correction must not be certain."""

NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}
DURATION: dict[str, Any] = {"type": "string", "format": "duration"}
DATE: dict[str, Any] = {"type": "string", "format": "date"}
MOMENT: dict[str, Any] = {"type": "string", "format": "date-time"}
SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
PERCENT: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 100}


@dataclass(frozen=True)
class Told:
    name: str
    schema: dict[str, Any]
    truth: Any
    forms: tuple[Any, ...]
    keys: tuple[str, ...] = ()
    """Its anchors."""


def _told(name: str, schema: dict[str, Any], truth: Any, *forms: Any, keys: tuple[str, ...] = ()) -> Told:
    return Told(name, schema, truth, forms, keys)


def _one_of(*options: Any) -> dict[str, Any]:
    return {"enum": list(options)}


UNITS = (
    _told("net_weight_kg", NUMBER, 2.5, "2.5 kg", "2500 g", "2,500克", "5斤", "2.5公斤", "2.5 Kilograms", "2500 grams", "2 kg 500 g", "2公斤500克", "0.0025 t"),
    _told("net_weight_kg", NUMBER, UNKNOWN, "about 3 kg", "3-4 kg", "20 cm", "5 kg / 6 kg", "kg", "1.200 kg", "≥ 5 kg", "3±0.1 kg", "5 kg x 2", "2 x 5 kg", "5 boxes", "12 kg (26 lbs)", "3多公斤", "5 kg?", "5 kg or more", "5kg/袋"),
    _told("distance_km", NUMBER, 12.4, "12.4km", "12,400 m", "12.4 公里", "12400米", "12.4 kilometers", "12.4千米"),
    _told("screen_inch", NUMBER, 27, '27"', "27 inch", "27英寸", "27-inch", "27 inches", "27in"),
    _told("volume_ml", NUMBER, 750, "750 mL", "0.75 L", "75 cl", "0.75升", "750毫升", "750 cc", "0.75 liters"),
    _told("floor_area_m2", NUMBER, 88.5, "88.5 m²", "88.5㎡", "88.5平米", "88.5 sqm", "88.5 square meters", "88.5 平方米", "88.5 sq m"),
    _told("pressure_kpa", NUMBER, 101.3, "101.3 kPa", "101.3千帕", "101300 Pa", "1.013 bar", "0.1013 MPa"),
    _told("speed_kmh", NUMBER, 90, "90 km/h", "25 m/s", "90 kph", "90公里/小时", "时速90公里", "90 kmh"),
    _told("power_kw", NUMBER, 1.5, "1.5 kW", "1500 W", "1500瓦", "1.5千瓦", "1500 watts"),
    _told("body_temperature_c", NUMBER, 36.6, "36.6°C", "36.6 ℃", "36.6摄氏度", "36.6 C", "36.6度", "97.88 °F"),
    _told("size_mb", NUMBER, 512, "512 MB", "512MB", "512 megabytes", "512兆"),
    _told("size_mb", NUMBER, UNKNOWN, "0.5 GB", "half a gig", "500k", "524288 KiB?"),
    _told("memory_mib", INTEGER, 512, "512 MiB", "0.5 GiB", "524288 KiB"),
    _told("voltage_v", NUMBER, 220, "220V", "220 伏", "220 volts", "0.22 kV", "220伏特"),
    _told("frequency_mhz", NUMBER, 2400, "2.4 GHz", "2400 MHz", "2400兆赫", "2.4GHz"),
    _told("current_ma", NUMBER, 350, "350 mA", "0.35 A", "350毫安"),
    _told("dose_mg", NUMBER, 0.5, "0.5 mg", "500 mcg", "500 µg", "500微克", "0.0005 g", "0.5毫克"),
    _told("dose_mg", NUMBER, UNKNOWN, "2 tablets", "5 ml", "2片", "one capsule", "10 IU", "5 mg/ml", "5 mg/kg", "5-10 mg"),
    _told("height_cm", NUMBER, 180, "180 cm", "1.80 m", "1.8米", "1米8", "1m80", "180公分", "1 m 80 cm"),
    _told("land_mu", NUMBER, 12, "12亩", "12 mu"),
    _told("quantity", INTEGER, UNKNOWN, "2 dozen", "3打", "a few", "several", "一些", "半打", "two or three", "2-3", "0.5", "1 gross", "none?"),
    _told("quantity", INTEGER, 12, "12 pcs", "12件", "十二个", "twelve", "12.0", "x12", "12 EA", "一十二", "12 pieces", "Qty: 12", "12台", "十二台", "１２"),
    _told("altitude_m", NUMBER, -12, "-12 m", "−12m", "minus 12 m", "负12米", "-12 meters"),
    _told("length_mm", NUMBER, 12.7, "12.7 mm", "1/2 inch", "0.5 in", "1.27 cm", "½ inch"),
    _told("energy_kwh", NUMBER, 3.6, "3.6 kWh", "3600 Wh", "3.6度", "3.6千瓦时"),
    _told("rate_mbps", NUMBER, 100, "100 Mbps", "100 Mbit/s", "0.1 Gbps", "100兆"),
    _told("rate_mbps", NUMBER, UNKNOWN, "100 MB/s", "100 MBps", "up to 100 Mbps"),
    _told("concentration_mg_l", NUMBER, UNKNOWN, "5 mol/L", "5 g", "<5 mg/L", "5 mmol/L", "trace"),
)  # fmt: skip

MONEY = (
    _told("total_usd", NUMBER, 1250, "$1,250.00", "USD 1250", "1,250 US dollars", "US$1,250", "1.25k USD", "one thousand two hundred fifty dollars", "1250 USD.", "$ 1 250", "1250 bucks"),
    _told("total_usd", NUMBER, UNKNOWN, "€1,250", "1250 CAD", "¥1250", "$1.250", "$1,250-1,500", "free", "TBD", "99 cents", "A$1,250", "HK$1250", "NT$ 1250", "from $1,250", "$1,250+", "$1,250 (est.)", "$1,250 or $1,300", "25% off", "$1,250/month", "1250 MXN", "$12 50", "CR 1250?"),
    _told("total_eur", NUMBER, 3500.5, "3.500,50 €", "€3.500,50", "3 500,50 EUR", "3500,50 Euro", "EUR 3,500.50", "3’500.50 €", "3.500,50 Euro"),
    _told("total_eur", NUMBER, UNKNOWN, "3.500 €", "3,500 €?", "3.500,5,0 €", "3 500 50 €"),
    _told("amount_cny", NUMBER, 3500, "三千五百元", "人民币叁仟伍佰元整", "￥3,500.00", "3500元", "3.5千元", "0.35万元", "RMB 3,500", "CNY3500", "三千五", "3500块", "3,500.00元整", "叁仟伍佰圆整"),
    _told("amount_cny", NUMBER, 12.5, "12元5角", "12块5", "12.5元", "十二元五角", "12块5毛"),
    _told("amount_cny", NUMBER, UNKNOWN, "3500美元", "约3500元", "3500多元", "几千元", "3500-4000元", "3500日元", "三五千元", "3500元起", "3500元/月", "3分", "5件", "面议", "港币3500"),
    _told("amount_cny", NUMBER, 12_000, "1万2千", "1.2万", "一万二", "1.2w", "12千元", "1万2千元"),
    _told("balance", NUMBER, -1250, "(1,250.00)", "-1,250.00", "1,250.00-", "−1250", "-$1,250", "$-1,250", "($1,250.00)", "minus 1250", "负1250", "-1.250,00"),
    _told("balance", NUMBER, 1_234_567, "12,34,567", "1,234,567.00", "1 234 567", "1'234'567", "1.234.567,00", "1_234_567"),
    _told("balance", NUMBER, UNKNOWN, "1,2345.67", "1.234", "12.34.56", "1,234,56", "1-2", "1/2/3", "12:30", "1 2 3", "3 of 5", "No. 5-6", "+1 234 567 8901"),
    _told("price_jpy", INTEGER, 1250, "¥1,250", "1250円", "JPY 1250", "1,250 yen", "1250日元"),
    _told("revenue_usd", NUMBER, 1_250_000, "$1.25M", "USD 1.25 million", "1.25mn USD", "$1,250K", "125万美元", "1.25 million dollars", "$1.25 mil"),
    _told("revenue_usd", NUMBER, UNKNOWN, "$1.25MM?", "several million", "$1.25M-1.5M", "over $1M"),
    _told("revenue_million_usd", NUMBER, 1.25, "$1.25M", "1.25 million USD", "USD 1.25m"),
)  # fmt: skip

RATES = (
    _told("share", SHARE, 0.15, "15%", "15 percent", "百分之十五", "0.15", "15 %", "15 per cent", ".15", "１５％"),
    _told("share", SHARE, UNKNOWN, "15", "10-15%", "about 15%", "most", "一半左右", "150%", "<15%"),
    _told("tax_rate_percent", PERCENT, 7.5, "7.5%", "百分之七点五", "7.5 percent", "7,5 %", "7.5 pct", "75‰", "0.075 (7.5%)"),
    _told("tax_rate_percent", PERCENT, UNKNOWN, "6-8%", "n/a", "7.5% or 9%", "reduced", "7.5% p.a.?"),
    _told("growth", NUMBER, UNKNOWN, "15%", "15 pp", "15 bps", "1.5x", "doubled", "翻番"),
    _told("completion", SHARE, 0.75, "3/4", "75%", "three quarters", "四分之三", "¾", "75/100"),
    _told("completion", SHARE, 0.5, "half", "50%", "1/2", "一半", "二分之一", "½"),
    _told("score_of_5", {"type": "number", "minimum": 0, "maximum": 5}, 4, "4/5", "4 out of 5", "4 stars", "★★★★☆", "四星", "4分"),
    _told("score_of_5", {"type": "number", "minimum": 0, "maximum": 5}, UNKNOWN, "8/10", "4-5", "good", "45", "4 or 5"),
)  # fmt: skip

DURATIONS = (
    _told("duration_min", NUMBER, 80, "1h 20m", "1h20m", "1:20 h", "1 hour 20 minutes", "1小时20分钟", "80 min", "80分钟", "1 hr 20 min", "PT1H20M", "4800 s", "1h20min", "1 hour and 20 minutes", "一小时二十分钟", "1h 20'", "1 h 20 m", "01:20:00", "1小时20分", "80m", "80'", "1时20分"),
    _told("duration_min", NUMBER, UNKNOWN, "1:20", "about an hour", "1-2 h", "1 month", "a while", "1h 80m", "1h or 2h", "20 past 1", "1 day?", "1 session", "1:75 h", "一个多小时", "一会儿"),
    _told("duration_s", INTEGER, 90, "1m 30s", "1:30 min", "90s", "1 min 30 sec", "一分半", "1分30秒", "1.5 min", "PT1M30S", "00:01:30", "1'30\"", "一分半钟", "90 seconds", "90000 ms", "1分半"),
    _told("duration_s", INTEGER, UNKNOWN, "1:30", "a moment", "~90s", "90-120s", "1.5", "90+ s"),
    _told("contract_months", INTEGER, 6, "半年", "6 months", "6个月", "half a year", "六个月", "0.5 years", "P6M", "six months", "6 mo", "half year"),
    _told("contract_months", INTEGER, 18, "一年半", "18个月", "1.5 years", "1 year 6 months", "1年6个月", "18 months", "one and a half years", "P1Y6M", "一年零六个月", "1y 6m"),
    _told("contract_months", INTEGER, UNKNOWN, "26 weeks", "180 days", "6-12 months", "半年左右", "大约半年", "半年多", "indefinite", "180天", "每半年", "半年度", "到半年"),
    _told("delivery_days", INTEGER, 14, "两周", "2 weeks", "14天", "two weeks", "14 days", "fortnight", "a fortnight", "十四天", "2 wks", "2个星期", "两个星期", "二周", "P2W", "P14D", "两星期"),
    _told("delivery_days", INTEGER, UNKNOWN, "half a month", "10 business days", "两三周", "1-2 weeks", "一个月", "2 weeks max", "soon", "两周内", "两周后", "10个工作日", "within 2 weeks", "两周以上", "第二周", "week 2", "周二"),
    _told("timeout_ms", INTEGER, 1500, "1.5 s", "1500ms", "1,500 ms", "1.5秒", "1500毫秒", "1.5 seconds", "1s 500ms"),
    _told("warranty_years", NUMBER, 2, "2年", "24 months", "两年", "2 yrs", "24个月", "two years", "2 years", "P2Y"),
    _told("warranty_years", NUMBER, UNKNOWN, "730 days", "2-3 years", "lifetime", "104周", "三两年", "2年以上", "第2年", "2025年"),
    _told("工期_天", INTEGER, 45, "45天", "四十五天", "45日", "45 days", "45 d"),
    _told("工期_天", INTEGER, UNKNOWN, "一个半月", "45个工作日", "约45天", "一个月", "45天左右"),
    _told("时长_小时", NUMBER, 1.5, "一个半小时", "1.5小时", "90分钟", "1小时30分钟", "1h30m", "一小时半", "1:30小时", "1 h 30 min", "90 min"),
    _told("hours", NUMBER, 0.5, "30 min", "half an hour", "半小时", "半个小时", "30分钟", "0.5h", "0:30 h"),
    _told("runtime", DURATION, "PT1H20M", "1h 20m", "1 hour 20 minutes", "1小时20分钟", "1:20 h"),
    _told("runtime", DURATION, UNKNOWN, "1:20", "about 2 h", "a while", "1-2 h", "两小时左右"),
    _told("notice", DURATION, "P2W", "2 weeks", "两周", "two weeks", "2 wks"),
)  # fmt: skip

DATES = (
    _told("due_date", DATE, "2025-04-02", "2025-W14-3", "2025-092", "Apr. 2nd, 2025", "2nd of April, 2025", "二〇二五年四月二日", "2025年4月2日（星期三）", "02-APR-2025", "2025 April 2", "2. April 2025", "2 avril 2025", "2 de abril de 2025", "2025.04.02.", "2025-4-2", "20250402", "Wednesday 2 April 2025", "April 2nd 2025", "2025／04／02", "2025年04月02日", "the 2nd of April 2025", "Apr 02 2025", "2025-Apr-02", "Wed 4/2/2025", "2025 年 4 月 2 日", "2/apr/2025", "2025—04—02", "2025–04–02"),
    _told("due_date", DATE, UNKNOWN, "4/2/2025", "02/04/25", "April 2025", "yesterday", "Q2 2025", "2025-02-30", "4月2日", "2025-04-02 or 2025-04-03", "31/11/2025", "2025-13-04", "45749", "2025-04-02T23:30:00-08:00", "Fri 4/2/2025", "early April 2025", "2025-04", "April 31, 2025", "next Tuesday", "2025年4月上旬", "02.04.25", "2025-04-02 to 2025-04-09", "before 2025-04-02", "after April 2, 2025", "2025-04-02?", "~2025-04-02", "2025年2月30日", "25-04-02", "4-2-2025", "by April 2, 2025", "2025年4月2日前", "2025年4月2日之后", "not 2025-04-02", "二〇二五年四月", "Easter 2025", "农历2025年4月2日", "2025年四月初二"),
    _told("due_date", DATE, "2025-04-13", "13/04/2025", "04/13/2025", "13.04.2025", "13-04-2025", "4-13-2025", "13 Apr 2025", "民国114年4月13日", "13. 4. 2025", "Sunday, April 13, 2025"),
    _told("logged_at", MOMENT, "2025-04-02T14:30:00Z", "2025-04-02T14:30Z", "April 2, 2025 2:30 PM UTC", "20250402T143000Z", "Wed, 02 Apr 2025 14:30:00 GMT", "2025-04-02 14:30:00 UTC", "2025-04-02 14:30:00Z", "2 Apr 2025 14:30 GMT", "2025/04/02 14:30:00 Z"),
    _told("logged_at", MOMENT, "2025-04-02T14:30:00+08:00", "2025年4月2日 下午2:30 北京时间", "2025-04-02 14:30:00+08:00", "2025-04-02 14:30 +0800", "2025-04-02 14:30 UTC+8", "2025年4月2日14时30分（北京时间）", "2025-04-02 14:30:00 GMT+08:00", "2025-04-02 14:30:00 +08"),
    _told("logged_at", MOMENT, UNKNOWN, "2025-04-02 14:30", "14:30", "2025-04-02", "2025-04-02 14:30 EST", "2025-04-02T25:00:00Z", "2025-04-02 14:30 CST", "April 2 2:30 PM", "2025-04-02 afternoon", "2025-04-02 14:60:00Z", "2025年4月2日下午"),
)  # fmt: skip

BOOLEANS = (
    _told("express", BOOLEAN, True, "yes", "Y", "TRUE", "是", "需要", "✓", 1, "true.", "Yes.", "yes!", "t", "1", "ja", "oui", "✔️", "☑", "是的。", "YES, please", "对"),
    _told("express", BOOLEAN, False, "no", "N", "False", "否", "不需要", "✗", 0, "no.", "f", "0", "nein", "non", "❌", "不是", "No, thanks", "不"),
    _told("express", BOOLEAN, UNKNOWN, "maybe", "N/A", "unknown", "不确定", "partially", "2", "是/否", "yes/no", "y/n", "if possible", "yes and no", "没说", "待定", "-1", "0.5", "是否", "true/false", "either", "yes?", "是吗", "不一定", "可能", "50%", "部分"),
    _told("disabled", BOOLEAN, False, "active", "enabled", "启用", "有效"),
    _told("disabled", BOOLEAN, True, "disabled", "inactive", "停用", "禁用"),
    _told("is_inactive", BOOLEAN, False, "active", "enabled", "no", "启用"),
    _told("停用", BOOLEAN, False, "启用", "已启用", "开启", "active", "否"),
    _told("已禁用", BOOLEAN, True, "禁用", "停用", "disabled", "是"),
    _told("expired", BOOLEAN, False, "active", "有效", "valid", "否"),
    _told("blocked", BOOLEAN, False, "enabled", "active", "ok", "正常", "no"),
    _told("has_errors", BOOLEAN, False, "ok", "无", "没有", "no", "correct", "正确"),
    _told("is_wrong", BOOLEAN, False, "correct", "right", "正确", "no"),
    _told("is_wrong", BOOLEAN, True, "wrong", "incorrect", "错误", "yes"),
    _told("closed", BOOLEAN, UNKNOWN, "开", "开启", "on"),
    _told("off", BOOLEAN, UNKNOWN, "on", "enabled"),
    _told("opt_out", BOOLEAN, UNKNOWN, "enabled", "active", "on"),
    _told("enabled", BOOLEAN, True, "on", "active", "启用", "enabled", "开"),
    _told("enabled", BOOLEAN, False, "off", "inactive", "停用", "disabled", "关"),
    _told("有过敏史", BOOLEAN, False, "无", "没有", "否"),
    _told("无过敏史", BOOLEAN, UNKNOWN, "无", "有", "没有"),
    _told("离职", BOOLEAN, UNKNOWN, "active", "在职?", "正常"),
    _told("缺货", BOOLEAN, UNKNOWN, "有", "无"),
    _told("is_empty", BOOLEAN, UNKNOWN, "有", "无"),
    _told("invalid", BOOLEAN, UNKNOWN, "on", "开"),
    _told("not_disabled", BOOLEAN, UNKNOWN, "enabled", "on"),
    _told("not_taxable", BOOLEAN, UNKNOWN, "active", "disabled", "wrong"),
)  # fmt: skip

_STOCK = _one_of("in_stock", "out_of_stock", "back_order")
_NET = _one_of("net15", "net30", "net45", "net60")
_GRADE = _one_of("A+", "A", "A-", "B+", "B")
_MINUS = _one_of("A-", "B-", "C-")
_VERSION = _one_of("1.0", "1.1", "2.0")
_CARRIER = _one_of("UPS", "USPS", "DHL", "FedEx")
_SIZE = _one_of("XS", "S", "M", "L", "XL")
_CHANNEL = _one_of("mail", "email", "phone")
_INVOICE = _one_of("增值税专用发票", "增值税普通发票", "电子发票")
_REGION = _one_of("华东", "华南", "华北", "西南")
_MINOR = _one_of("3.1", "3.10", "3.11")
_TRADE = _one_of("进口", "出口", "转口")
_LEVEL = _one_of("一级", "二级", "三级")
_SHIPMENT = _one_of("pending", "shipped", "delivered", "returned")
_PLAN = _one_of("prepaid", "postpaid")
_RATIO = _one_of("1/2", "1/4", "3/4")
_SIDE = _one_of("left", "right", "both")
_CODE = _one_of("A1", "A2", "B1", "B2", "AB1")
_GAP = _one_of(10, 20, 30)

ENUMS = (
    _told("stock", _STOCK, "in_stock", "In Stock", "IN-STOCK", "in stock.", "instock", "ＩＮ＿ＳＴＯＣＫ"),
    _told("stock", _STOCK, "out_of_stock", "Out of stock", "OUT-OF-STOCK", "outOfStock", "out of  stock", "out_of_stok"),
    _told("stock", _STOCK, UNKNOWN, "stock", "in/out of stock", "sold", "available", "not in stock", "low stock", "in stock soon"),
    _told("terms", _NET, "net30", "Net 30", "NET-30", "net_30", "ＮＥＴ３０", "net 30 days"),
    _told("terms", _NET, UNKNOWN, "net3", "Net 90", "net 50", "30/60", "net", "net 35", "nett", "net30/net60", "net 1"),
    _told("grade", _GRADE, "A+", "a+", " A+ ", "Ａ＋", "A +"),
    _told("grade", _GRADE, "A-", "a-", "A −", "Ａ－", "A –"),
    _told("grade", _GRADE, UNKNOWN, "A++", "AB", "C", "A/B", "+", "A or B", "B-"),
    _told("rating", _MINUS, UNKNOWN, "A", "b", "A+", "AA", "-", "C+"),
    _told("version", _VERSION, "1.1", "v1.1", " 1.1 ", 1.1, "１.１"),
    _told("version", _VERSION, UNKNOWN, "11", 11, "1", "1.0.1", "110", "1.2", "20", "10", 10, "1-1"),
    _told("python", _MINOR, UNKNOWN, 3.1, "310", "3,1"),
    _told("carrier", _CARRIER, "USPS", "usps", "U.S.P.S.", "US PS"),
    _told("carrier", _CARRIER, "FedEx", "fedex", "FEDEX", "Fed Ex", "fed-ex"),
    _told("carrier", _CARRIER, UNKNOWN, "UPSS", "PS", "UPS/USPS", "SF", "US"),
    _told("size", _SIZE, "M", "m", "medium", "Medium", "Ｍ"),
    _told("size", _SIZE, UNKNOWN, "XXL", "S/M", "X", "one size", "ML", "SL"),
    _told("channel", _CHANNEL, "email", "e-mail", "E-Mail", "EMAIL", "emial"),
    _told("channel", _CHANNEL, UNKNOWN, "fax", "mail/email", "post", "mobile mail", "none"),
    _told("发票类型", _INVOICE, "增值税专用发票", " 增值税专用发票", "增值税 专用发票", "增值税专用发票。", "增值税专票", "专票"),
    _told("发票类型", _INVOICE, UNKNOWN, "增值税发票", "发票", "增值税", "专用/普通", "不开票", "收据", "增值税通用发票"),
    _told("大区", _REGION, "华东", "华东区", "华东地区", " 华 东 ", "華東"),
    _told("大区", _REGION, UNKNOWN, "华中", "东", "华", "南", "华东南", "华东/华南", "东北", "西北"),
    _told("贸易", _TRADE, UNKNOWN, "口", "进出口", "内销", "进", "非进口", "入口"),
    _told("等级", _LEVEL, "二级", "2级", "二 级", "二级。", "贰级", "Ⅱ级"),
    _told("等级", _LEVEL, UNKNOWN, "四级", "级", "一二级", "二三级", "十二级", "4级", "12级"),
    _told("status", _SHIPMENT, "shipped", "已发货", "Shipped", "SHIPPED ", "shiped", "dispatched", "发货"),
    _told("status", _SHIPMENT, UNKNOWN, "未发货", "not shipped", "部分发货", "partially shipped", "shipping", "ready to ship", "un-shipped", "即将发货", "lost", "half delivered", "to be delivered", "not delivered"),
    _told("plan", _PLAN, "prepaid", "pre-paid", "Pre Paid", "PREPAID", "预付费"),
    _told("plan", _PLAN, UNKNOWN, "paid", "repaid", "unpaid", "p", "pre/post paid"),
    _told("portion", _RATIO, "1/2", "½", "1 / 2", "1／2"),
    _told("portion", _RATIO, UNKNOWN, "12", "14", "1/3", "1", "2/1", 12, "1-2"),
    _told("side", _SIDE, "left", "Left", "LEFT.", "左", "左侧"),
    _told("side", _SIDE, UNKNOWN, "lift", "neither", "left or right", "center", "not left", "wrong"),
    _told("code", _CODE, "B1", "b1", "B-1", "B 1", "Ｂ１"),
    _told("code", _CODE, UNKNOWN, "B", "1", "B3", "A12", "A-B", "BA1", "Bl2"),
    _told("gap", _GAP, 20, "20", "20.0", "二十", "twenty", "20 mm"),
    _told("gap", _GAP, UNKNOWN, "2", "25", "200", "10-20", 15, "20 or 30"),
)  # fmt: skip

_TEXT: dict[str, Any] = {"type": "string"}
_PARTS = ("AB-1203", "AB-1208", "CD-4471", "EF-0091")
_ZERO = ("KO-100", "K0-100", "KX-200")
_CASED = ("ab-77", "AB-77", "cd-12")
_DASHED = ("XY-12", "XY12", "ZZ-40")
_FIRMS = ("Acme Labs", "Globex", "Initech Corp", "Umbrella")
_ZH_FIRMS = ("上海云帆科技", "北京云帆科技", "深圳星河物流")
_WARDS = ("1-12", "1-13", "2-01")
_LINES = ("A-1", "A1-", "B-2")
_ROOMS = ("I-10", "L-10", "M-20")

ANCHORS = (
    _told("part", _TEXT, "AB-1203", "ＡＢ－１２０３", "АВ-1203", "ab-1203", "AB 1203", "AB1203", "AB–1203", "AB_1203", " AB-1203 ", "AB-12O3", "AB-l203", "AB-I2O3", "ΑΒ-1203", "AB - 1203", "AB‐1203", "AB−1203", keys=_PARTS),
    _told("part", _TEXT, "EF-0091", "EF-OO91", "EF-0O91", "ef0091", "EF-009l", "ЕF-0091", keys=_PARTS),
    _told("part", _TEXT, UNKNOWN, "AB-120", "AB-12", "AB-120X", "AB-9999", "12-03", "AB", "1203", "AB-12 0 3 and 8", "AB-1203/AB-1208", "not AB-1203", keys=_PARTS),
    _told("part", _TEXT, UNKNOWN, "КО-100", "ko-100", "KΟ-1OO", "ko100", "K O-100", keys=_ZERO),
    _told("part", _TEXT, UNKNOWN, "Ab-77", "АВ-77", "aB 77", "ａＢ－７７", "AB77", keys=_CASED),
    _told("part", _TEXT, "cd-12", "CD-12", "сd-12", "CD12", "Cd-l2", keys=_CASED),
    _told("part", _TEXT, UNKNOWN, "XY_12", "XY 12", "xy-12", "ХY12", "xy12", keys=_DASHED),
    _told("part", _TEXT, "ZZ-40", "ZZ40", "zz-4O", "ＺＺ４０", keys=_DASHED),
    _told("supplier", _TEXT, "Globex", "GLOBEX", "Gl0bex", "GІobex", "Ｇｌｏｂｅｘ", "Glоbеx", "globex ", "Gl obex", keys=_FIRMS),
    _told("supplier", _TEXT, "Acme Labs", "ACME LABS", "AcmeLabs", "Acme-Labs", "Асmе Labs", "acme  labs", "Acme​ Labs", keys=_FIRMS),
    _told("supplier", _TEXT, UNKNOWN, "Acme", "Labs", "Global", "Initech Labs", "Acme Globex", keys=_FIRMS),
    _told("供应商", _TEXT, "上海云帆科技", "上海 云帆 科技", "上海云帆科技 ", "上 海 云 帆 科 技", "上海雲帆科技", keys=_ZH_FIRMS),
    _told("供应商", _TEXT, UNKNOWN, "云帆科技", "海云帆科技", "天津云帆科技", "南京云帆科技", "上北云帆科技", keys=_ZH_FIRMS),
    _told("ward", _TEXT, "1-12", "1–12", "1 - 12", "１－１２", "1_12", "l-12", "112", keys=_WARDS),
    _told("ward", _TEXT, UNKNOWN, "11-2", "1-1", "1-14", "12-1", "11-3", keys=_WARDS),
    _told("ward", _TEXT, UNKNOWN, "A1", "a 1", "A-1-", keys=_LINES),
    _told("room", _TEXT, UNKNOWN, "1-10", "l-10", "i10", "|-10", keys=_ROOMS),
    _told("room", _TEXT, "M-20", "М-2О", "m20", "m-2o", keys=_ROOMS),
)  # fmt: skip

MIXED = (
    _told("quantity", INTEGER, 23, "二十三", "23个", "贰拾叁", "２３", "23 件", "廿三", "twenty-three", "二十三 pcs"),
    _told("weight_t", NUMBER, 3.5, "3.5吨", "3.5 tons", "三点五吨", "3500公斤", "3.5t"),
    _told("priority", _one_of("low", "medium", "urgent"), "urgent", "紧急", "加急", "URGENT", "Urgent（紧急）", "紧急 urgent"),
    _told("priority", _one_of("low", "medium", "urgent"), UNKNOWN, "不紧急", "not urgent", "一般紧急", "中低", "高"),
    _told("支付方式", _one_of("现金", "银行转账", "信用卡"), "现金", "cash", "Cash", "现 金", "现金支付"),
    _told("支付方式", _one_of("现金", "银行转账", "信用卡"), UNKNOWN, "银行", "card or cash", "非现金", "cashless", "支票", "转"),
    _told("needs_invoice", BOOLEAN, True, "需要", "是", "要开票", "需要 yes"),
    _told("needs_invoice", BOOLEAN, False, "不需要", "否", "不用", "无需"),
    _told("交货期", DATE, "2025-04-02", "April 2, 2025", "2 Apr 2025", "2025年4月2号", "2025年 4月 2日", "二零二五年四月二日"),
    _told("unit_price_cny", NUMBER, 99.9, "99.9 元/件", "¥99.90", "99.9 RMB", "单价99.9元", "人民币 99.90", "99.9元"),
    _told("country", _one_of("CN", "US", "DE"), "CN", "中国", "China", "cn", "P.R.C."),
    _told("country", _one_of("CN", "US", "DE"), UNKNOWN, "Chile", "UK", "CH", "北美", "EU", "D"),
)  # fmt: skip

VALUES = {
    "units": UNITS, "money": MONEY, "rates": RATES, "durations": DURATIONS, "dates of many forms": DATES, "booleans in words": BOOLEANS,
    "enums with near names": ENUMS, "look-alike anchors": ANCHORS, "mixed languages": MIXED,
}  # fmt: skip
