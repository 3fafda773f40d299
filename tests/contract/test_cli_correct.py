"""`stagemesh correct --local`: real child processes, results by line, and errors that stay with their line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stagemesh.cli.main import main

SCHEMA = {
    "type": "object",
    "properties": {
        "total": {"type": "number"},
        "date": {"type": "string", "format": "date"},
        "sku": {"type": "string"},
    },
    "required": ["total", "date"],
}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(SCHEMA), encoding="utf-8")
    return str(path)


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, ["correct", "--local", *arguments], input=text)


def test_a_text_is_corrected_and_every_change_is_told(schema: str) -> None:
    done = run("--schema", schema, "--json", text='Sure: {"total": "12,000.50", "date": "March 5, 2025"}')
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert (answer["valid"], answer["certain"], answer["passes"]) == (True, True, 0)
    assert answer["value"] == {"total": 12000.5, "date": "2025-03-05"}
    assert [(c["pointer"], c["from"], c["to"], c["step"]) for c in answer["changes"][1:]] == [
        ("/total", "12,000.50", 12000.5, "schema"),
        ("/date", "March 5, 2025", "2025-03-05", "schema"),
    ]
    assert all(change["applied"] for change in answer["changes"])


def test_a_clean_text_comes_back_byte_for_byte(schema: str) -> None:
    text = '{ "date":"2025-03-05",\n\t"total": 1.50 }\n'
    done = run("--schema", schema, "--json", text=text)
    answer = json.loads(done.stdout)
    assert (answer["text"], answer["changes"], answer["certain"]) == (text, [], True)


def test_what_cannot_be_made_valid_ends_with_1(schema: str) -> None:
    done = run("--schema", schema, text='{"total": 1}')
    assert done.exit_code == 1
    assert done.stdout == '{"total": 1}\n'
    assert "date" in done.stderr


def test_a_threshold_keeps_unsure_changes_from_being_applied(schema: str) -> None:
    done = run("--schema", schema, "--min-confidence", "0.7", "--json", text='{"total":1,"date":"1/2/2025"}')
    answer = json.loads(done.stdout)
    assert answer["value"]["date"] == "1/2/2025"
    assert not answer["certain"]
    assert [change["applied"] for change in answer["changes"]] == [False]


def test_keys_and_a_source_are_used(schema: str, tmp_path: Path) -> None:
    keys, source = tmp_path / "skus.txt", tmp_path / "mail.txt"
    keys.write_text("AB-1001\nCD-2002\n", encoding="utf-8")
    source.write_text("Order of AB-1001 on 2025-03-05. The total is 12.50 in all.", encoding="utf-8")
    arguments = ("--schema", schema, "--anchors", f"/sku={keys}", "--source", str(source), "--json")
    done = run(*arguments, text='{"sku": "AB-10O1", "total": 12.5}')
    answer = json.loads(done.stdout)
    assert answer["value"] == {"sku": "AB-1001", "total": 12.5, "date": "2025-03-05"}


def test_many_cases_give_one_result_a_line_in_their_order_and_bad_lines_do_no_harm() -> None:
    good: dict[str, Any] = {"schema": SCHEMA, "note": "a member of the caller's own"}
    cases: list[Any] = [
        {**good, "id": "a", "text": '{"total": "3", "date": "2025-03-05"}'},
        "nonsense",
        {**good, "id": 7, "text": '{"total": 3}'},
        {"id": "b", "text": "{}", "schema": {"type": 3}},
        {**good, "id": "c", "text": 3},
        {
            **good,
            "id": "d",
            "text": '{"total":1,"date":"2025-03-05","sku":"AB-10O1"}',
            "anchors": {"/sku": ["AB-1001"]},
        },
        {**good, "id": "e", "text": '{"total":1,"date":"2025-03-05"}', "anchors": {"sku": ["AB-1001"]}},
    ]
    lines = [json.dumps(case) if isinstance(case, dict) else case for case in cases]
    done = run("--jsonl", "-", text="\n".join(lines))
    assert done.exit_code == 1
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert [result["id"] for result in results] == ["a", None, 7, "b", "c", "d", "e"]
    assert [result["valid"] for result in results] == [True, False, False, False, False, True, False]
    assert results[1]["errors"][0]["rule"] == "case"
    assert results[3]["errors"][0]["rule"] == "INVALID_SCHEMA"
    assert results[5]["value"]["sku"] == "AB-1001"
    assert results[6]["errors"][0]["rule"] == "INVALID_ANCHOR"
    keys = {"id", "valid", "certain", "text", "value", "errors", "changes", "passes", "ms"}
    assert all(result.keys() == keys for result in results)


def test_cases_come_from_lines_alone(schema: str) -> None:
    assert run("--jsonl", "-", "--schema", schema).exit_code == 2
    assert run("--jsonl", "/nowhere/cases.jsonl").exit_code == 2
