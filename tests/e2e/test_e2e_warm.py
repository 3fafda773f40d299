"""What a log says users will ask is stored before they ask it, through a whole mesh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mesh_support import Mesh, wait_until

from stagemesh.runtime.kv_keys import PAGE_TOKENS

MODEL = "smollm2-135m-instruct"
OPENING = (
    "For an audit we have to show a corrected invoice to the tax office of our town. How far back are these documents "
    "kept by you, and who is allowed to download them from the portal of the company?"
)


def write_log(path: Path) -> Path:
    lines = [
        {"session_id": f"s{number}", "user_id": f"u{number}", "turns": [{"q": question, "a": "Ten years."}]}
        for number, question in enumerate((OPENING, OPENING, OPENING + " My own name is Ada."))
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_a_new_users_first_turn_finds_what_was_warmed_and_another_tenants_does_not(mesh: Mesh, tmp_path: Path) -> None:
    keys = {name: mesh.command("tenant", "create", name).stdout.split()[0] for name in ("warmed", "cold")}
    log = write_log(tmp_path / "log.jsonl")
    report = json.loads(mesh.command("cache", "warm", str(log), "--tenant", "warmed", "--json").stdout)
    assert (report["dialogues"], report["users"], report["computed"], report["failed"]) == (3, 3, 1, 0)
    again = json.loads(mesh.command("cache", "warm", str(log), "--tenant", "warmed", "--json").stdout)
    assert (again["already"], again["computed"]) == (1, 0)

    found = {name: reused(mesh, key) for name, key in keys.items()}
    assert found["warmed"]["computed"] <= PAGE_TOKENS
    assert found["cold"]["computed"] == found["cold"]["prompt"]


def reused(mesh: Mesh, api_key: str) -> dict[str, int]:
    """Of the prompt of a new user's first turn: how many tokens there are, and how many were computed."""
    answer = mesh.openai(api_key).chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": OPENING}],
        max_tokens=2,
        extra_body={"session_id": "new"},
        user="new",
    )
    request_id = (answer.model_extra or {})["stagemesh"]["request_id"]
    uses: list[dict[str, int]] = []

    def is_known() -> bool:
        done = mesh.command("cache", "explain", request_id, "--json", check=False)
        if done.returncode == 0:
            uses.append(json.loads(done.stdout))
        return bool(uses)

    wait_until(is_known, 20, "explanation")
    return {"prompt": uses[0]["prompt_tokens"], "computed": uses[0]["computed_tokens"]}


@pytest.mark.parametrize(
    "line", ["", "{", "[]", '{"session_id": "s", "user_id": "u"}', '{"session_id": "s", "user_id": 1, "turns": [{}]}']
)
def test_a_log_of_another_form_is_refused_with_its_line(mesh: Mesh, tmp_path: Path, line: str) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"session_id": "s", "user_id": "u", "turns": [{"q": "Hello?", "a": "Yes."}]}\n' + line + "\nnull\n")
    done = mesh.command("cache", "warm", str(log), "--tenant", "dev", check=False)
    assert done.returncode == 2
    assert f"{log}:{2 if line else 3}" in done.stderr
