"""`stagemesh validate` and `stagemesh anchors`: what they print, and their exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.cli import verdict_view
from stagemesh.cli.client.anchor_sets import read_keys
from stagemesh.cli.exits import Exit
from stagemesh.cli.main import main

FIELDS = {"valid", "certain", "text", "value", "errors", "changes", "passes", "ms"}
SCHEMA = {"type": "object", "required": ["sku"], "properties": {"sku": {"type": "string"}}}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    return str(tmp_path / "schema.json")


def run(*arguments: str, text: str = "") -> Result:
    return CliRunner().invoke(main, ["validate", *arguments], input=text)


def test_a_valid_text_exits_with_0_and_prints_the_object(schema: str) -> None:
    result = run("--local", "--schema", schema, "--json", text='{"sku": "A", "n": 1.50}')
    assert result.exit_code == Exit.OK
    shown = json.loads(result.stdout)
    assert shown.keys() == FIELDS
    assert (shown["valid"], shown["certain"], shown["value"], shown["errors"]) == (
        True,
        True,
        {"sku": "A", "n": 1.5},
        [],
    )
    assert (shown["text"], shown["changes"], shown["passes"]) == ('{"sku": "A", "n": 1.50}', [], 0)


def test_a_bad_text_exits_with_1_and_says_what_to_do(schema: str, tmp_path: Path) -> None:
    keys, rules, text = tmp_path / "skus.txt", tmp_path / "rules.json", tmp_path / "answer.json"
    keys.write_text("A-1001\nB-7700\n", encoding="utf-8")
    rules.write_text('[{"sum": {"total": "/total", "of": ["/items/*"]}}]', encoding="utf-8")
    text.write_text('{"sku": "B-77O0", "total": 4, "items": [1, 2]}', encoding="utf-8")
    arguments = ("--local", "--schema", schema, "--anchors", f"/sku={keys}", "--rules", str(rules), str(text))
    result = run(*arguments, "--json")
    assert result.exit_code == Exit.FAILED
    errors = json.loads(result.stdout)["errors"]
    assert [(one["pointer"], one["rule"], one["suggestion"]) for one in errors] == [
        ("/sku", "anchor.near", "B-7700"),
        ("/total", "sum", None),
    ]
    shown = run(*arguments).stdout.splitlines()
    assert shown[0] == "not valid"
    assert shown[1].startswith('  anchor.near: /sku is "B-77O0"')


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "nothing is asked"),
        (("--anchors", "/a=@set", "--local"), "stored sets are the mesh's"),
        (("--anchors", "/a=/nowhere"), "cannot be read"),
        (("--rules", "FILE"), "rules[0].sums is not known; rules[0] takes number, date,"),
        (("--schema", "FILE", "/nowhere"), "cannot be read"),
        (("--schema", "BAD", "--local"), "INVALID_SCHEMA"),
    ],
)
def test_wrong_usage_exits_with_2(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "FILE").write_text('[{"sums": {}}]', encoding="utf-8")
    (tmp_path / "BAD").write_text('{"type": "strin"}', encoding="utf-8")
    given = [str(tmp_path / one) if one in {"FILE", "BAD"} else one for one in arguments]
    result = run(*given, text="{}")
    assert result.exit_code == Exit.USAGE
    assert said in result.output


@pytest.mark.parametrize(
    ("name", "file", "column", "said"),
    [
        ("set", "BYTES.txt", "", "it is no text in UTF-8"),
        ("set", "two.csv", "", "has the columns id, sku; name one"),
        ("set", "two.csv", "price", "has the columns id, sku; name one"),
        ("bad/name", "two.csv", "id", "'bad/name' cannot name a set"),
    ],
)
def test_what_cannot_be_loaded_is_told_before_any_call(
    name: str, file: str, column: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "BYTES.txt").write_bytes(bytes(range(256)))
    (tmp_path / "two.csv").write_text("id,sku\n1,A\n", encoding="utf-8")
    arguments = ["anchors", "load", name, str(tmp_path / file), "--column", column, "--state", str(tmp_path)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == Exit.USAGE
    assert said in " ".join(result.output.split())


def test_without_a_mesh_the_command_says_so(schema: str) -> None:
    result = run("--schema", schema, "--address", "127.0.0.1:9", text="{}")
    assert result.exit_code == Exit.UNREACHABLE


def test_a_verdict_on_a_part_is_not_certain() -> None:
    issue = validator_pb2.Issue(rule="anchor.limit", message="more", severity=validator_pb2.SEVERITY_ERROR)
    outcome = verdict_view.of_verdict(validator_pb2.Verdict(issues=[issue]), "x", 1.0)
    assert (outcome.valid, outcome.certain) == (False, False)
    assert verdict_view.lines(outcome)[0] == "not valid, not certain"


def test_a_valid_text_that_does_not_meet_its_formats_is_not_certain(tmp_path: Path) -> None:
    (tmp_path / "day.json").write_text('{"properties": {"day": {"format": "date"}}}', encoding="utf-8")
    result = run("--local", "--schema", str(tmp_path / "day.json"), text='{"day": "03/04/2026"}')
    assert result.exit_code == Exit.OK
    shown = result.stdout.splitlines()
    assert (shown[0], shown[1].split(":")[0]) == ("valid, not certain", "  format (warning)")


def test_changes_are_shown_with_step_and_confidence() -> None:
    change = {"pointer": "/a", "from": "1", "to": 1, "reason": "a number", "confidence": 0.9, "step": "schema"}
    outcome = verdict_view.Outcome(valid=True, certain=True, text="{}", value="{}", changes=[change], more={"id": "7"})
    assert verdict_view.lines(outcome)[1] == "  /a was changed (schema, confidence 0.90): a number"
    assert next(iter(verdict_view.as_json(outcome))) == "id"


@pytest.mark.parametrize(
    ("name", "content", "column", "keys"),
    [
        ("a.txt", "\ufeffA 1\r\n\n B\n", "", ["A 1", " B"]),
        ("a.csv", 'id,name\n1,"x,y"\n2,z\n', "name", ["x,y", "z"]),
        ("a.csv", "id\nA\n\nB\n", "", ["A", "B"]),
        ("a.jsonl", '"A"\n\n"B"\n', "", ["A", "B"]),
        ("a.jsonl", '{"id": 7}\n{"id": "8"}\n', "id", ["7", "8"]),
    ],
)
def test_keys_are_read_from_lines_or_a_column(
    tmp_path: Path, name: str, content: str, column: str, keys: list[str]
) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    assert list(read_keys(tmp_path / name, column)) == keys


@pytest.mark.parametrize(
    ("name", "content", "column"),
    [
        ("a.csv", "a,b\n1,2\n", ""),
        ("a.jsonl", "{}\n", "id"),
        ("a.jsonl", "x\n", ""),
        ("a.txt", "x", "id"),
        ("a.txt", b"\xff", ""),
    ],
)
def test_keys_that_cannot_be_read_are_a_usage_error(tmp_path: Path, name: str, content: Any, column: str) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(click.BadParameter):
        list(read_keys(tmp_path / name, column))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sku", '{"sku": "nothing like it"}'),
        ("buyer.id", '{"sku": "", "buyer": {"id": "nothing like it"}}'),
        ("items[].id", '{"sku": "", "items": [{"id": "nothing like it"}]}'),
    ],
)
def test_a_member_may_be_named_without_a_pointer(schema: str, tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "keys.txt").write_text("A-1\nB-2\n", encoding="utf-8")
    result = run("--local", "--schema", schema, "--anchors", f"{name}={tmp_path / 'keys.txt'}", "--json", text=text)
    assert [error["rule"] for error in json.loads(result.stdout)["errors"]] == ["anchor.unknown"]
