"""docs/errors.md lists every reason that the code can raise, with the codes that a caller meets."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from services.engine.kv.miss_cause import MissCause
from services.gateway.http.failures import STATUS_BY_CODE, STATUS_BY_REASON
from stagemesh.cli.cache_view import CAUSES
from stagemesh.runtime.errors import InvalidRequest, StagemeshError

ROOT = Path(__file__).parents[3]
KINDS = {**{kind.__name__: kind for kind in StagemeshError.__subclasses__()}, "Refusal": InvalidRequest}
"""Error classes by name, and what becomes of a refusal of `stagemesh.validation`."""

REASON = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")
ROW = re.compile(r"^\| `([A-Z0-9_]+)` \| ([A-Z_]+) \| (\d+) \| (.+) \|$", re.MULTILINE)


@cache
def raised() -> tuple[tuple[str, str], ...]:
    """Reason and error class of each error that is made somewhere with a literal reason."""
    return tuple(_raised())


def _raised() -> Iterator[tuple[str, str]]:
    for package in ("services", "stagemesh"):
        for path in (ROOT / package).rglob("*.py"):
            if ROOT / "stagemesh" / "api" in path.parents:
                continue
            yield from raised_in(ast.parse(path.read_text(encoding="utf-8")))


def raised_in(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
            for part in (part for argument in node.args[:1] for part in ast.walk(argument)):
                if isinstance(part, ast.Constant) and REASON.fullmatch(str(part.value)):
                    yield str(part.value), node.func.id


def documented() -> dict[str, tuple[str, int]]:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    return {reason: (code, int(status)) for reason, code, status, _ in ROW.findall(text)}


def test_the_search_finds_reasons() -> None:
    assert len(set(raised())) > 50


def test_every_reason_is_documented_with_its_code() -> None:
    table = documented()
    missing = {reason: kind for reason, kind in raised() if reason not in table}
    assert not missing, "add rows to docs/errors.md"
    by_reason: dict[str, set[str]] = {}
    for reason, kind in raised():
        by_reason.setdefault(reason, set()).add(KINDS[kind].code.name)
    wrong = {reason: codes for reason, codes in by_reason.items() if table[reason][0] not in codes}
    assert not wrong, "correct the gRPC code in docs/errors.md"


def test_the_http_status_is_the_one_that_the_gateway_sends() -> None:
    status_of = {code.name: status for code, status in STATUS_BY_CODE.items()}
    table = documented()
    wanted = {reason: STATUS_BY_REASON.get(reason) or status_of[code] for reason, (code, _) in table.items()}
    assert {reason: status for reason, (_, status) in table.items()} == wanted


def test_the_table_is_sorted_and_has_no_reason_twice() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    reasons = [row[0] for row in ROW.findall(text)]
    assert reasons == sorted(set(reasons))


def test_every_documented_reason_stands_in_the_code() -> None:
    packages = [path for name in ("services", "stagemesh") for path in (ROOT / name).rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in packages)
    assert [reason for reason in documented() if f'"{reason}"' not in code] == []


def test_every_cause_of_a_miss_has_plain_words_in_the_command_and_a_row() -> None:
    assert set(MissCause) <= set(CAUSES)
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+)\. \|$", text, re.MULTILINE))
    assert {name: rows.get(name, "").lower() for name in CAUSES} == {
        name: word.lower() for name, word in CAUSES.items()
    }


def test_all_rows_of_a_table_have_as_many_cells_as_its_head() -> None:
    cells = 0
    for line in (ROOT / "docs" / "errors.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("|"):
            cells = cells or line.count("|")
            assert line.count("|") == cells, line
        else:
            cells = 0
