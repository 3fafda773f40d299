"""What `stagemesh correct --jsonl` says about members of a case whose names are misspelt."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from stagemesh.cli.commands.correct import command

CASE = {"id": "1", "text": '{"a": 1}', "schema": {"type": "object"}}


def test_a_misspelt_member_is_told_and_a_foreign_one_is_not(tmp_path: Path) -> None:
    cases = tmp_path / "cases.jsonl"
    told = json.dumps({**CASE, "sauce": "a is 1"}) + "\n" + json.dumps({**CASE, "note": "mine"})
    cases.write_text(told, encoding="utf-8")
    done = CliRunner().invoke(command, ["--local", "--jsonl", str(cases)])
    first, second = map(json.loads, done.stdout.splitlines())
    (error,) = first["errors"]
    assert (error["rule"], error["severity"]) == ("case.member", "warning")
    assert "'sauce'" in error["message"]
    assert "'source'" in error["message"]
    assert second["errors"] == []
    assert done.exit_code == 0
