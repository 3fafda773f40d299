"""Numbers with a unit or a currency, for fields whose names ask for one."""

from __future__ import annotations

import json

import pytest

from services.corrector.chain import RepairChain
from services.corrector.repair import Repair
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits

CHAIN = RepairChain(Limits())


def mended(name: str, value: str) -> Repair:
    schema = {"type": "object", "properties": {name: {"type": "number"}}, "required": [name]}
    text = json.dumps({name: value}, ensure_ascii=False)
    return CHAIN.repair(text, Constraint(Kind.JSON_SCHEMA, json.dumps(schema)), [], "")


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("length_m", "120 cm", 1.2),
        ("length_m", "120cm", 1.2),
        ("lengthM", "3 m", 3),
        ("length (m)", "2 km", 2000),
        ("距离_米", "5公里", 5000),
        ("距离（米）", "5公里", 5000),
        ("power_w", "3 kW", 3000),
        ("volume_l", "250 ml", 0.25),
        ("weight_g", "2 kg", 2000),
        ("duration_s", "2 min", 120),
        ("height_m", "7 ft", 2.1336),
        ("distance_km", "500 m", 0.5),
        ("speed_ms", "36 km/h", 10),
        ("speed_kmh", "10 m/s", 36),
        ("temperature_c", "32 °F", 0),
        ("temp_f", "37°C", 98.6),
        ("temp_c", "21.5℃", 21.5),
        ("price_eur", "12 €", 12),
        ("价格_元", "12元", 12),
        ("价格_元", "￥12", 12),
        ("price_usd", "$12", 12),
        ("price_per_kg", "$12", 12),
        ("weight", "3 kg", 3),
        ("temperature", "21℃", 21),
        ("quantity", "5 boxes", 5),
        ("pieces", "5 pcs", 5),
        ("pressure_kpa", "1500 Pa", 1.5),
        ("frequency_mhz", "2.4 GHz", 2400),
        ("current_ma", "0.35 A", 350),
        ("voltage_v", "0.22 kV", 220),
        ("rate_mbps", "0.1 Gbps", 100),
        ("dose_mg", "500 µg", 0.5),
        ("memory_mib", "0.5 GiB", 512),
        ("balance_usd", "($1,250.00)", -1250),
        ("altitude_m", "minus 12 m", -12),
        ("monthly_rent_cny", "3500元/月", 3500),
    ],
)
def test_a_number_comes_in_the_unit_of_its_field(name: str, value: str, wanted: float) -> None:
    done = mended(name, value)
    assert (json.loads(done.text)[name], done.certain) == (wanted, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("price_eur", "$12"),
        ("price_eur", "12 kg"),
        ("价格_元", "12美元"),
        ("length_m", "5 kg"),
        ("length_m", "5 min"),
        ("length_m", "120 rpm"),
        ("length_m", "5 boxes"),
        ("weight_kg", "$5"),
        ("speed_ms", "100 knots"),
        ("amount_keur", "20,000 EUR"),
        ("价格_万元", "50000元"),
        ("pieces", "2 pairs"),
        ("pieces", "2 kg"),
        ("size_mb", "1 GB"),
        ("power_w", "3 mW"),
        ("rate_mbps", "100 MBps"),
        ("size_mb", "500k"),
        ("quantity", "2 dozen"),
        ("quantity", "3打"),
        ("amount_cny", "3500元/月"),
        ("amount_cny", "3分"),
        ("amount_cny", "5件"),
        ("weight_kg", "5kg/袋"),
        ("delivery_days", "week 2"),
        ("warranty_years", "第2年"),
        ("warranty_years", "2025年"),
    ],
)
def test_a_number_in_another_unit_or_currency_is_never_certain(name: str, value: str) -> None:
    assert not mended(name, value).certain


def test_an_amount_goes_into_the_scale_of_its_field() -> None:
    assert json.loads(mended("amount_keur", "20,000 EUR").text)["amount_keur"] == 20
    assert json.loads(mended("价格_万元", "50000元").text)["价格_万元"] == 5


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("duration_min", "1h 20m", 80),
        ("duration_min", "1:20 h", 80),
        ("duration_min", "1 hour and 20 minutes", 80),
        ("duration_min", "1小时20分", 80),
        ("duration_min", "01:20:00", 80),
        ("duration_min", "PT1H20M", 80),
        ("duration_s", "1:30 min", 90),
        ("duration_s", "一分半钟", 90),
        ("duration_s", "1'30\"", 90),
        ("contract_months", "半年", 6),
        ("contract_months", "一年半", 18),
        ("contract_months", "one and a half years", 18),
        ("contract_months", "1y 6m", 18),
        ("delivery_days", "两周", 14),
        ("delivery_days", "a fortnight", 14),
        ("时长_小时", "一个半小时", 1.5),
        ("hours", "half an hour", 0.5),
        ("net_weight_kg", "2 kg 500 g", 2.5),
        ("height_cm", "1米8", 180),
        ("length_mm", "½ inch", 12.7),
        ("weight_t", "三点五吨", 3.5),
        ("amount_cny", "12元5角", 12.5),
        ("tax_percent", "百分之七点五", 7.5),
    ],
)
def test_a_quantity_in_parts_or_in_words_comes_in_the_unit_of_its_field(name: str, value: str, wanted: float) -> None:
    done = mended(name, value)
    assert (json.loads(done.text)[name], done.certain) == (wanted, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("duration_min", "1:20"),
        ("duration_min", "1h 80m"),
        ("duration_min", "1h or 2h"),
        ("duration_min", "一个多小时"),
        ("duration_min", "1 month"),
        ("contract_months", "26 weeks"),
        ("contract_months", "半年左右"),
        ("contract_months", "每半年"),
        ("delivery_days", "两三周"),
        ("delivery_days", "两周内"),
        ("delivery_days", "一个月"),
        ("delivery_days", "周二"),
        ("duration", "1h 20m"),
        ("net_weight_kg", "5 kg 10 kg"),
        ("hours", "三分之一小时"),
    ],
)
def test_a_quantity_that_is_not_exact_or_not_of_the_field_is_never_certain(name: str, value: str) -> None:
    assert not mended(name, value).certain


@pytest.mark.parametrize(("value", "most", "wanted"), [("3/4", 1, 0.75), ("一半", 1, 0.5), ("4 out of 5", 5, 4)])
def test_a_fraction_is_read_where_the_most_that_is_allowed_says_what_of(value: str, most: int, wanted: float) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "number", "maximum": most}}, "required": ["a"]}
    text = json.dumps({"a": value}, ensure_ascii=False)
    done = CHAIN.repair(text, Constraint(Kind.JSON_SCHEMA, json.dumps(schema)), [], "")
    assert (json.loads(done.text)["a"], done.certain) == (wanted, True)
    assert not mended("a", value).certain
