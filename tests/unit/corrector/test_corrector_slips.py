"""Words near another one: a slip of the hand is set right for certain, another word never."""

from __future__ import annotations

import json
from typing import Any

import pytest

from services.corrector.chain import RepairChain
from services.corrector.repair import Repair
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.limits import Limits

CHAIN = RepairChain(Limits())


def mended(value: str, words: list[str], *, anchored: bool) -> Repair:
    field: dict[str, Any] = {"type": "string"} if anchored else {"enum": words}
    schema = {"type": "object", "properties": {"s": field}, "required": ["s"]}
    anchors = [Anchor("/s", tuple(words))] if anchored else []
    text = json.dumps({"s": value}, ensure_ascii=False)
    return CHAIN.repair(text, Constraint(Kind.JSON_SCHEMA, json.dumps(schema)), anchors, "")


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("未发货", ["已发货", "已签收"]),
        ("未支付", ["已支付", "已退款"]),
        ("不合格", ["合格", "待检"]),
        ("无效", ["有效", "过期"]),
        ("非会员", ["会员", "员工"]),
        ("不同意", ["同意", "弃权"]),
        ("已批准", ["未批准", "已驳回"]),
        ("invalid", ["valid", "expired"]),
    ],
)
def test_a_negated_word_is_not_put_in(value: str, words: list[str], anchored: bool) -> None:
    done = mended(value, words, anchored=anchored)
    assert json.loads(done.text)["s"] == value
    assert not done.certain


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("北京", ["南京", "上海"]),
        ("三级", ["二级", "一般"]),
        ("A级", ["B级", "不合格"]),
        ("Iran", ["Iraq", "Oman"]),
        ("CAD", ["CAN", "USD"]),
        ("v1.2", ["v1.1", "v2.0"]),
        ("v1.12", ["v1.11", "v2.0"]),
        ("Maria", ["Marie", "Robert"]),
        ("张三", ["张山", "李四"]),
        ("张伟明", ["张伟民", "李四"]),
        ("debit", ["debut", "credit"]),
        ("100234", ["100235", "200000"]),
        ("Roberts", ["Robert", "Susan"]),
    ],
)
def test_another_word_is_never_taken_for_certain(value: str, words: list[str], anchored: bool) -> None:
    assert not mended(value, words, anchored=anchored).certain


@pytest.mark.parametrize("anchored", [False, True])
@pytest.mark.parametrize(
    ("value", "word"),
    [("cancceled", "canceled"), ("shippped", "shipped"), ("dilivvery", "dilivery"), ("aprvoed", "aproved")],
)
def test_a_slip_in_a_long_word_is_set_right(value: str, word: str, anchored: bool) -> None:
    done = mended(value, [word, "other"], anchored=anchored)
    assert (json.loads(done.text)["s"], done.certain) == (word, True)


def test_a_key_of_letters_and_digits_may_differ_in_one_character() -> None:
    done = mended("AB-1O01", ["AB-1001", "CD-2002"], anchored=True)
    assert (json.loads(done.text)["s"], done.certain) == ("AB-1001", True)
    assert not mended("A-12", ["A-11", "B-77"], anchored=True).certain


def test_names_whose_last_letters_are_exchanged_are_two_names() -> None:
    assert not mended("Christina", ["Christian", "Robert"], anchored=True).certain
