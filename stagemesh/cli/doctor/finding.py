"""One thing that `stagemesh doctor` looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    RISK = "risk"
    """It works, but worse or not for long."""
    FAIL = "fail"
    """The mesh will not start or not answer."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    name: str
    level: Level
    detail: str
    fix: str = ""
    """What to do about it; empty when all is well."""


def ok(name: str, detail: str) -> Finding:
    return Finding(name=name, level=Level.OK, detail=detail)


def risk(name: str, detail: str, fix: str) -> Finding:
    return Finding(name=name, level=Level.RISK, detail=detail, fix=fix)


def fail(name: str, detail: str, fix: str) -> Finding:
    return Finding(name=name, level=Level.FAIL, detail=detail, fix=fix)
