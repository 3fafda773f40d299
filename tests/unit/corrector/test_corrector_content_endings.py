"""Where texts end in prose, and items that are told alike."""

from __future__ import annotations

from typing import Any

import pytest

from services.corrector.content.endings import extensions, is_whole
from services.corrector.content.judge import judge
from services.corrector.proposals import Findings, Problem


def findings(value: Any, properties: dict[str, Any], source: str) -> Findings:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return judge(Problem(text="", value=value, schema=schema, source=source))


@pytest.mark.parametrize(
    ("source", "text", "whole"),
    [
        ("completed by technician Dmitri Demir.", "Dmitri", False),
        ("completed by technician Dmitri Demir.", "Dmitri Demir", True),
        ("sold by Smith & Sons today", "Smith", False),
        ("from Halden Steel, Ltd. to us", "Halden Steel", False),
        ("寄到厦门市学府路190号27层。", "厦门市学府路190", False),
        ("寄到厦门市学府路190号27层。", "厦门市学府路190号", False),
        ("寄到厦门市学府路190号27层。", "厦门市学府路190号27层", True),
        ("产品：路由模块，数量49件", "路由模", False),
        ("由刘洋与王芳签订", "刘洋", True),
    ],
)
def test_a_text_is_whole_where_the_source_does_not_go_on_with_it(source: str, text: str, whole: bool) -> None:
    start = source.index(text)
    assert is_whole(source, start, start + len(text)) is whole


def test_a_name_is_followed_to_its_end_and_not_into_the_next_sentence() -> None:
    source = "Vendor: Everline Energy Ltd. Customer: Foxglove Machinery Ltd."
    [(start, end)] = extensions(source, source.lower(), "Everline En")
    assert source[start:end] == "Everline Energy Ltd"


def test_a_text_that_may_be_the_beginning_of_a_longer_one_is_never_confirmed() -> None:
    found = findings(
        {"技师": "王明", "金额": 300},
        {"技师": {"type": "string"}, "金额": {"type": "number"}},
        "技师王明轩完成，金额300元。",
    )
    assert "/技师" not in found.confirmed
    assert found.doubts or found.proposals


ROWS = {
    "items": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "count": {"type": "integer"}, "price": {"type": "number"}},
            "required": ["name", "count", "price"],
        },
    }
}


def test_items_are_read_with_all_digits_and_without_the_words_before_the_first() -> None:
    source = "订单DD7向供应商下达，订购灯板55件，单价2,638.43元；扫码枪48件，单价19,191.75元。"
    items = [{"name": "灯板", "count": 55, "price": 2638.43}, {"name": "扫码枪", "count": 48, "price": 19191.75}]
    found = findings({"items": items}, ROWS, source)
    assert found.proposals == ()


def test_a_dropped_item_is_put_back_and_the_others_stay_as_they_are() -> None:
    source = "订购灯板55件，单价2,638.43元；扫码枪48件，单价19,191.75元；水泵9件，单价80元。"
    items = [{"name": "灯板", "count": 55, "price": 2638.43}, {"name": "水泵", "count": 9, "price": 80}]
    [proposal] = findings({"items": items}, ROWS, source).proposals
    assert proposal.value == [items[0], {"name": "扫码枪", "count": 48, "price": 19191.75}, items[1]]
