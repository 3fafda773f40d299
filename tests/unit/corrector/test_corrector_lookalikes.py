"""Keys of anchors that a value equals but for characters that look like theirs."""

from __future__ import annotations

import json

import pytest

from services.corrector.chain import RepairChain
from services.corrector.repair import Repair
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits

CHAIN = RepairChain(Limits())
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}


def mended(value: str, keys: list[str]) -> Repair:
    text = json.dumps({"key": value}, ensure_ascii=False)
    return CHAIN.repair(text, Constraint(Kind.JSON_SCHEMA, json.dumps(SCHEMA)), [Anchor("/key", tuple(keys))])


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("ＡＢ－１２０３", "AB-1203"),
        ("\u0410\u0412-1203", "AB-1203"),  # Cyrillic
        ("\u0391\u0392-1203", "AB-1203"),  # Greek
        ("AB-12O3", "AB-1203"),
        ("AB-I2O3", "AB-1203"),
        ("ab 1203", "AB-1203"),
        ("AB\u20131203", "AB-1203"),
        ("AB1203", "AB-1203"),
        ("Gl0bex", "Globex"),
        ("Acme\u200b labs", "Acme Labs"),
        ("AcmeLabs", "Acme Labs"),
        ("l-12", "1-12"),
        ("上海 云帆", "上海云帆"),
    ],
)
def test_the_one_key_that_a_value_looks_like_is_meant(value: str, key: str) -> None:
    done = mended(value, [key, "QX-5577", "Initech", "3-40", "深圳星河"])
    assert (json.loads(done.text)["key"], done.certain) == (key, True)


@pytest.mark.parametrize(
    ("value", "keys"),
    [
        ("\u041a\u041e-100", ["KO-100", "K0-100"]),
        ("ko-100", ["KO-100", "K0-100"]),
        ("Ab-77", ["AB-77", "ab-77"]),
        ("XY_12", ["XY-12", "XY12"]),
        ("A1", ["A-1", "A1-"]),
        ("11-2", ["1-12", "3-40"]),
        ("1.l", ["1.1", "11"]),
        ("Illy", ["Lily", "Rosa"]),
        ("ILLY", ["lily", "rosa"]),
        ("AB-1O3", ["AB-103", "AB-1O8"]),
        ("ab-1203", ["AB-1203", "ab-1204"]),
        ("C", ["C+", "C#"]),
        ("5", ["-5", "70"]),
        ("IO", ["10", "20"]),
        ("O", ["0", "5"]),
    ],
)
def test_where_two_keys_may_be_meant_or_another_one_none_is_certain(value: str, keys: list[str]) -> None:
    assert not mended(value, keys).certain


def test_a_neighbour_that_differs_in_the_odd_character_only_does_not_speak_against_a_key() -> None:
    done = mended("AB-1O3", ["AB-103", "AB-113", "AB-193"])
    assert (json.loads(done.text)["key"], done.certain) == ("AB-103", True)
