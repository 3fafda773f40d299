"""docs/failure-modes.md: its reasons are documented, every degraded reason stands there, and each cause as well."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from services.engine.healing import degradation
from stagemesh.cli.diagnose.causes import CAUSES
from stagemesh.cli.main import COMMANDS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "failure-modes.md").read_text(encoding="utf-8")
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
REASON = re.compile(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|TRUNCATED)`")
DEGRADED = PAGE.partition("## Degraded answers")[2]


def rows(text: str) -> Iterator[list[str]]:
    for line in text.splitlines():
        if line.startswith("|") and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def degraded_reasons() -> set[str]:
    """Literal reasons of stages that take a fallback, in the gateway and in the engine."""
    found = set(re.findall(r"[A-Z]+(?:_[A-Z]+)+", _docstring_of_reason()))
    for path in (ROOT / "services" / "gateway").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "degrade":
                reasons = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
                found |= {str(value.value) for value in reasons if isinstance(value, ast.Constant)}
    return found


def _docstring_of_reason() -> str:
    """What `Degradation.reason` says it can be."""
    source = Path(degradation.__file__).read_text(encoding="utf-8")
    return source.partition("reason: str")[2].partition('"""')[2].partition('"""')[0]


def test_every_reason_that_is_named_is_documented() -> None:
    documented = {row[0].strip("`") for row in rows(ERRORS)}
    assert set(REASON.findall(PAGE)) <= documented


def test_every_reason_of_a_degraded_stage_stands_there() -> None:
    assert len(degraded_reasons()) >= 5
    assert degraded_reasons() <= set(REASON.findall(DEGRADED))


def test_every_reason_of_an_unreachable_part_stands_there() -> None:
    away = {
        reason
        for reason in re.findall(r"^\| `([A-Z_]+_UNAVAILABLE)`", ERRORS, re.MULTILINE)
        if reason.partition("_")[0] in {"CACHE", "VALIDATOR", "CORRECTOR", "TOKENIZER", "ENGINE", "LEDGER"}
    }
    assert away <= set(REASON.findall(PAGE))


def test_every_cause_that_diagnose_names_has_a_row() -> None:
    named = {cause for row in rows(PAGE) if len(row) == 5 for cause in re.findall(r"`([a-z_]+)`", row[1])}
    assert named == set(CAUSES)


def test_every_row_says_what_the_caller_sees_and_what_heals_it_and_what_an_operator_does() -> None:
    for row in rows(PAGE):
        assert len(row) in {3, 5}
        assert all(cell for position, cell in enumerate(row) if position != 1 or len(row) == 3), row


def test_alerts_and_commands_that_are_named_exist() -> None:
    alerts = {
        rule["alert"]
        for group in yaml.safe_load((ROOT / "deploy" / "alerts" / "stagemesh.yaml").read_text())["groups"]
        for rule in group["rules"]
    }
    assert set(re.findall(r"`(Stagemesh[A-Za-z]+)`", PAGE)) <= alerts
    assert set(re.findall(r"`stagemesh ([a-z]+)", PAGE)) <= set(COMMANDS)
