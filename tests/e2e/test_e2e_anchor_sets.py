"""A stored set and rules on the real path: loaded by the command, named by callers over HTTP, gRPC and the command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from mesh_support import Mesh

SCHEMA = {
    "type": "object",
    "properties": {"plant": {"type": "string", "pattern": "^(Lyon-Nor.|Lyon-Nrod)$"}, "units": {"type": "integer"}},
    "required": ["plant", "units"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "order", "schema": SCHEMA}}
PLANTS = ("Köln-Süd", "Lyon-Nord", "Ostrava")


@pytest.fixture(scope="module")
def plants(mesh: Mesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("anchors") / "plants.csv"
    file.write_text("id,plant\n" + "".join(f"{n},{plant}\n" for n, plant in enumerate(PLANTS)), encoding="utf-8")
    loaded = mesh.command("anchors", "load", "plants", str(file), "--column", "plant", "--json")
    assert json.loads(loaded.stdout)["keys"] == 3
    yield "plants"
    mesh.command("anchors", "drop", "plants")


def answer(mesh: Mesh, **extra: Any) -> dict[str, Any]:
    reply = mesh.openai().chat.completions.create(
        model="smollm2-135m-instruct",
        messages=[{"role": "user", "content": "Order units from a plant."}],
        response_format=FORMAT,
        max_tokens=60,
        extra_body=extra,
    )
    found: dict[str, Any] = json.loads(reply.model_dump_json())
    return {**found["stagemesh"], "text": reply.choices[0].message.content}


def test_an_answer_is_held_against_a_stored_set_and_rules(mesh: Mesh, plants: str) -> None:
    anchors = {"/plant": {"set": plants}}
    good = answer(mesh, anchors=anchors, rules=[{"number": {"pointer": "/units", "at_least": -1e18}}])
    assert good["validation"]["valid"]
    assert json.loads(good["text"])["plant"] == "Lyon-Nord", "whatever the model put in place of the last letters"
    bad = answer(mesh, rules=[{"number": {"pointer": "/units", "values": [0.5]}}])
    assert [issue["rule"] for issue in bad["validation"]["errors"]][:1] == ["number"]


def test_an_unknown_set_is_refused_before_anything_is_generated(mesh: Mesh) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        answer(mesh, anchors={"/plant": {"set": "nobody"}})
    assert caught.value.code == "unknown_anchor_set"


def test_the_command_validates_with_stored_sets_and_text_rules(mesh: Mesh, plants: str, tmp_path: Path) -> None:
    text, rules = tmp_path / "answer.json", tmp_path / "rules.json"
    text.write_text('{"plant": "Lyon-Nort", "note": "due 2025-02-30"}', encoding="utf-8")
    rules.write_text('{"text_rules": [{"pointer": "/note", "dates": true}]}', encoding="utf-8")
    options = ("--anchors", f"/plant=@{plants}", "--rules", str(rules), "--json")
    shown = mesh.command("validate", *options, str(text), check=False)
    assert shown.returncode == 1
    errors = json.loads(shown.stdout)["errors"]
    assert [(one["pointer"], one["rule"], one["suggestion"]) for one in errors] == [
        ("/plant", "anchor.near", "Lyon-Nord"),
        ("/note", "date.exists", None),
    ]


def test_the_command_lists_shows_and_checks_sets(mesh: Mesh, plants: str) -> None:
    assert [one["name"] for one in json.loads(mesh.command("anchors", "list", "--json").stdout)] == [plants]
    assert json.loads(mesh.command("anchors", "show", plants, "--json").stdout)["some"] == [
        "Ostrava",
        "Köln-Süd",
        "Lyon-Nord",
    ]
    near = mesh.command("anchors", "check", plants, "Köln Süd", check=False)
    assert (near.returncode, near.stdout.strip()) == (1, "near  Köln-Süd")
    assert mesh.command("anchors", "check", plants, "Ostrava").stdout.strip() == "exact  Ostrava"
