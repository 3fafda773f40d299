"""Faults as text: `attend=nan;layer=3, tokenize=delay;ms=200`, in a header and in messages between services."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields

from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.faults.fault import Fault, Kind

HEADER = "x-stagemesh-fault"
MAX_CHARS = 2_048
_INTEGERS = {"times": "times", "ms": "wait_ms", "seed": "seed", "layer": "layer"}
_NUMBER = re.compile(r"[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def parse_faults(text: str) -> list[Fault]:
    """Raises InvalidRequest that quotes the part at fault. A fault happens once where `times` is not given."""
    if len(text) > MAX_CHARS:
        raise _invalid(f"is longer than {MAX_CHARS:,} characters")
    return [_parse(part.strip()) for part in text.split(",") if part.strip()]


def write_faults(faults: Iterable[Fault]) -> str:
    """The text that `parse_faults` reads."""
    return ", ".join(map(_write, faults))


def _parse(part: str) -> Fault:
    named, *options = (piece.strip() for piece in part.split(";"))
    stage, _, kind = named.partition("=")
    if kind not in set(Kind):
        raise _invalid(f"{part!r}: write STAGE=KIND, with a kind of {', '.join(Kind)}")
    values: dict[str, float | int] = {"times": 1}
    for option in options:
        name, _, value = option.partition("=")
        if not _NUMBER.fullmatch(value) or (name != "rate" and name not in _INTEGERS):
            raise _invalid(f"{option!r}: write NAME=NUMBER, with a name of rate, {', '.join(_INTEGERS)}")
        if name == "rate":
            values["rate"] = float(value)
        elif "." in value:
            raise _invalid(f"{option!r}: a whole number is needed")
        else:
            values[_INTEGERS[name]] = int(value)
    return Fault(stage=stage, kind=Kind(kind), **values)  # type: ignore[arg-type]  # integers but for the rate


def _write(fault: Fault) -> str:
    defaults = {field.name: field.default for field in fields(Fault)} | {"times": 1}
    given = {"rate": fault.rate, **{name: getattr(fault, field) for name, field in _INTEGERS.items()}}
    options = [f"{name}={value}" for name, value in given.items() if value != defaults[_INTEGERS.get(name, name)]]
    return ";".join((f"{fault.stage}={fault.kind}", *options))


def _invalid(why: str) -> InvalidRequest:
    return InvalidRequest("INVALID_FAULT", f"{HEADER}: {why}", field=HEADER)
