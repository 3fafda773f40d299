# ruff: noqa: E501  schemas are easier to read in long lines
"""Objects of kinds that the corrector was not made for: nested arrays, maps, unions, mixed languages."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "number"}
INTEGER: dict[str, Any] = {"type": "integer"}
BOOLEAN: dict[str, Any] = {"type": "boolean"}


def closed(**members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


def listed(item: dict[str, Any], **more: int) -> dict[str, Any]:
    return {"type": "array", "items": item, **more}


@dataclass(frozen=True)
class Fresh:
    name: str
    language: str
    schema: dict[str, Any]
    sample: Callable[[random.Random], dict[str, Any]]


def _route(rng: random.Random) -> dict[str, Any]:
    def stop() -> dict[str, Any]:
        place = rng.choice(("Lyon", "Graz", "Porto", "Bergen"))
        return {"place": place, "wait_min": rng.randrange(3, 50), "docks": [rng.randrange(1, 9) for _ in range(2)]}

    return {
        "route_code": f"R{rng.randrange(100, 999)}", "driver_note": rng.choice(("It's the driver's last run", "call first; bell is broken", 'ask for "Gate B"')),
        "legs": [{"stops": [stop() for _ in range(rng.randrange(1, 3))], "toll": round(rng.uniform(1, 40), 2)} for _ in range(2)], "is_round_trip": rng.random() < 0.5,
    }  # fmt: skip


def _lab(rng: random.Random) -> dict[str, Any]:
    return {
        "sample": f"S-{rng.randrange(1000, 9999)}", "taken_on": f"2024-0{rng.randrange(1, 10)}-{rng.randrange(13, 29)}",
        "results": [{"analyte": name, "value": round(rng.uniform(1, 9), 1), "flag": rng.choice(("low", "normal", "high"))} for name in ("glucose", "sodium", "urea")],
        "fasting": rng.random() < 0.5, "url": f"https://lab.example.com/r/{rng.randrange(99)}#top",
    }  # fmt: skip


def _roster(rng: random.Random) -> dict[str, Any]:
    return {
        "team": rng.choice(("night desk", "harbour crew")), "shifts": {day: [f"{rng.choice(('Ana', 'Tom', 'Wei'))} {rng.randrange(9)}"] for day in ("mon", "tue")},
        "lead": {"name": rng.choice(("Noor Haddad", "Ian O'Neil")), "pager": rng.choice((None, 4417, "ext. 12"))}, "headcount": rng.randrange(3, 30),
    }  # fmt: skip


def _meter(rng: random.Random) -> dict[str, Any]:
    return {
        "户号": f"{rng.randrange(10**9, 10**10)}", "用电类别": rng.choice(("居民", "工业", "商业")), "峰谷电价": [round(rng.uniform(0.3, 1.2), 3) for _ in range(2)],
        "电表数": rng.randrange(1, 9),
        "抄表": [{"月份": f"2024-{month:02}", "读数": rng.randrange(1000, 9000), "异常": rng.random() < 0.3} for month in (5, 6)], "地址": rng.choice(("文三路 18 号，3 单元", "解放大道“江南里”2 号")),
    }  # fmt: skip


def _course(rng: random.Random) -> dict[str, Any]:
    return {
        "courseName": rng.choice(("机器学习 101", "Data & Ethics", "商务英语 (B2)")), "credits": rng.randrange(1, 6), "教师": rng.choice(("陈晓", "Li Na")),
        "schedule": [[rng.randrange(1, 6), f"{rng.randrange(8, 18)}:00"] for _ in range(2)], "选修": rng.random() < 0.5, "max_students": rng.randrange(20, 90),
    }  # fmt: skip


_LEG = closed(stops=listed(closed(place=TEXT, wait_min=INTEGER, docks=listed(INTEGER)), minItems=1), toll=NUMBER)
_RESULT = closed(analyte=TEXT, value=NUMBER, flag={"enum": ["low", "normal", "high"]})
FRESH = (
    Fresh("route", "en", closed(route_code=TEXT, driver_note=TEXT, legs=listed(_LEG), is_round_trip=BOOLEAN), _route),
    Fresh("lab report", "en", closed(sample=TEXT, taken_on={"type": "string", "format": "date"}, results=listed(_RESULT), fasting=BOOLEAN, url={"type": "string", "format": "uri"}), _lab),
    Fresh("roster", "en", closed(team=TEXT, shifts={"type": "object", "additionalProperties": listed(TEXT)}, lead=closed(name=TEXT, pager={"type": ["string", "integer", "null"]}), headcount=INTEGER), _roster),
    Fresh("meter", "zh", closed(户号=TEXT, 用电类别={"enum": ["居民", "工业", "商业"]}, 峰谷电价=listed(NUMBER), 电表数=INTEGER, 抄表=listed(closed(月份=TEXT, 读数=INTEGER, 异常=BOOLEAN)), 地址=TEXT), _meter),
    Fresh("course", "zh", closed(courseName=TEXT, credits=INTEGER, 教师=TEXT, schedule=listed({"type": "array", "prefixItems": [INTEGER, TEXT], "minItems": 2, "maxItems": 2}), 选修=BOOLEAN, max_students=INTEGER), _course),
)  # fmt: skip
