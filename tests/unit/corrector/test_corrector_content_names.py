"""Names, stretches of time and items in running prose: who does what, and what alone is left."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.content_cases.story import closed
from services.corrector.content.judge import judge
from services.corrector.content.judgement import SURE
from services.corrector.proposals import Findings, Problem

TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
DAY = {"type": "string", "format": "date"}


def findings(value: Any, schema: Any, source: str) -> Findings:
    return judge(Problem(text=json.dumps(value), value=value, schema=schema, source=source))


def proposed(found: Findings) -> dict[str, Any]:
    return {proposal.pointer: proposal.value for proposal in found.proposals if proposal.confidence >= SURE}


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"buyer": "Ironbridge Tools", "supplier": "Alder Foods"}, "Ironbridge Tools orders pumps from Alder Foods."),
        ({"buyer": "瑞丰电子有限公司", "supplier": "天工机械集团"}, "瑞丰电子有限公司向天工机械集团订购水泵。"),
        ({"start_date": "2026-05-03", "end_date": "2026-06-09"}, "Your stay is from 3 May 2026 to 9 June 2026."),
        ({"check_in": "2026-05-03", "check_out": "2026-06-09"}, "2026年5月3日入住，2026年6月9日退房。"),
        ({"reported_by": "Jan de Souza", "assigned_to": "Ada Ito"}, "Reported by Jan de Souza; assigned to Ada Ito."),
    ],
)
def test_who_does_what_and_when_is_confirmed_and_exchanged_values_change_places(
    value: dict[str, str], source: str
) -> None:
    kind = DAY if all(told[:2] == "20" for told in value.values()) else TEXT
    schema = closed(**dict.fromkeys(value, kind))
    assert findings(value, schema, source).settles_all
    exchanged = dict(zip(value, reversed(value.values()), strict=True))
    found = findings(exchanged, schema, source)
    assert not found.settles_all or proposed(found) == {f"/{name}": told for name, told in value.items()}


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"start_date": "2026-05-03", "end_date": "2026-06-09"}, "The visit moved from 3 May 2026 to 9 June 2026."),
        ({"patient": "Agnes Hollis"}, "The patient is Boris. Agnes Hollis called about the results with Nils Ito."),
        ({"employer": "Alder Systems Inc"}, "Employer: Alder Systems Inc.\nPaid: yes"),
        ({"检验员": "许丽"}, "样品由检验员许丽检验、审核。"),
    ],
)
def test_what_may_be_another_matter_is_neither_certain_nor_changed(value: dict[str, str], source: str) -> None:
    schema = closed(**{name: DAY if told[:2] == "20" else TEXT for name, told in value.items()})
    found = findings(value, schema, source)
    assert not found.settles_all
    assert proposed(found) in ({}, {"/patient": "Boris"})


def test_an_item_told_in_other_words_keeps_a_list_from_being_certain() -> None:
    item = {"type": "object", "properties": {"article": TEXT, "quantity": WHOLE, "price": WHOLE}}
    schema = closed(lines={"type": "array", "items": {**item, "required": ["article", "quantity", "price"]}})
    value = {"lines": [{"article": "fuse box", "quantity": 25, "price": 8238}]}
    source = "Order: 25 x fuse box at 8,238 euros each; eight x work bench at 1170 euros each."
    assert not findings(value, schema, source).settles_all


TABLE = (
    "|Item |Qty|Price|\n|---|---|---|\n| fuse box | 25 | 38.50 |\n| work bench | 8 | 1,170.00 |\n| lamp | 3 | 20.00 |"
)
PRICED = [("fuse box", 25, 38.5), ("work bench", 8, 1170), ("lamp", 3, 20)]
写明 = [("打印纸", 20, 18), ("墨盒", 5, 120), ("文件夹", 40, 6)]


@pytest.mark.parametrize(
    ("source", "items"),
    [
        (TABLE, PRICED),
        (
            "Item        Qty   Price\nfuse box    25    38.50\nwork bench   8    1,170.00\nlamp         3    20.00\n",
            PRICED,
        ),
        ("- 25 x fuse box at 38.50 EUR\n- 8 x work bench at 1,170.00 EUR\n- 3 x lamp at 20.00 EUR", PRICED),
        ("打印纸20包、单价18元；墨盒5个、单价120元；文件夹40个、单价6元。", 写明),
        ("打印纸20包（单价18元）、墨盒5个（单价120元）和文件夹40个（单价6元）。", 写明),
    ],
)
def test_a_list_that_lacks_an_item_is_completed_or_left_open(source: str, items: list[tuple[str, int, float]]) -> None:
    item = closed(item=TEXT, qty=WHOLE, price={"type": "number"})
    schema = closed(lines={"type": "array", "items": item})
    truth = [dict(zip(("item", "qty", "price"), one, strict=True)) for one in items]
    assert proposed(findings({"lines": truth}, schema, source)) == {}
    for kept in ([1, 2], [0, 2], [0, 1], [0], [1], [2]):
        found = findings({"lines": [truth[at] for at in kept]}, schema, source)
        assert proposed(found) in ({}, {"/lines": truth})
        assert proposed(found) or not found.settles_all


@pytest.mark.parametrize(
    "told", ["Cancelled: 2 x chair at 40.00 EUR. Order: ", "Last time: 2 x chair at 40.00 EUR. Order: "]
)
def test_an_item_of_another_order_is_not_added(told: str) -> None:
    item = closed(item=TEXT, qty=WHOLE, price={"type": "number"})
    value = {"lines": [{"item": "desk", "qty": 3, "price": 80}, {"item": "lamp", "qty": 1, "price": 20}]}
    source = f"{told}3 x desk at 80.00 EUR; 1 x lamp at 20.00 EUR."
    found = findings(value, closed(lines={"type": "array", "items": item}), source)
    assert proposed(found) == {}


def test_a_meeting_that_is_the_next_one_keeps_its_day() -> None:
    value = {"date": "2023-11-08", "next_meeting": "2024-01-18"}
    source = "The meeting took place on 8 Nov 2023 in Cork. The next meeting is on 2024-01-18."
    assert proposed(findings(value, closed(date=DAY, next_meeting=DAY), source)) == {}


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"technician": "Chloé van"}, "Maintenance log. Technician: Chloé van der Meer."),
        ({"technician": "Chloé"}, "The pump was serviced by the technician Chloé van der Meer."),
        ({"consignee": "Falkirk Systems Inc"}, "Delivery to the consignee, Falkirk Systems Inc., is expected soon."),
    ],
)
def test_a_name_that_goes_on_is_not_confirmed(value: dict[str, str], source: str) -> None:
    assert not findings(value, closed(**dict.fromkeys(value, TEXT)), source).settles_all


@pytest.mark.parametrize(
    ("told", "is_known"), [("the tracking number is TRK196132", True), ("the tracking number is (illegible)", False)]
)
def test_a_code_of_something_that_is_denied_is_not_taken(told: str, is_known: bool) -> None:
    source = f"The carrier has 53 packages; {told}. Shipment TRK612855 of October 1, 2022 is not affected."
    found = findings({"tracking_number": "TRK195132"}, closed(tracking_number=TEXT), source)
    assert proposed(found) == ({"/tracking_number": "TRK196132"} if is_known else {})
    assert not found.confirmed


def test_the_number_of_a_thing_is_nearer_by_its_own_name_than_by_another() -> None:
    source = "The tracking number is TRK196132. Shipment TRK612855 went to Lyon."
    found = findings({"tracking_number": "TRK196132"}, closed(tracking_number=TEXT), source)
    assert proposed(found) == {}
