"""Formats that a valid answer does not meet: mended or marked, over HTTP, streaming, and by the command."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from mesh_support import Mesh

from stagemesh.runtime.faults.header import HEADER

PAGE = {"type": "string", "format": "iri", "pattern": "^<?https://example\\.com/a>?$"}
"""The engine's grammar knows no IRIs."""
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"page": PAGE},
    "required": ["page"],
    "additionalProperties": False,
}
LESS_THAN = "44"
"""The token `<` of the default model, with which no IRI begins."""
UNMET, MET = {"page": "<https://example.com/a"}, {"page": "https://example.com/a"}


def answered(mesh: Mesh, *, stream: bool, faults: str = "") -> tuple[Any, dict[str, Any]]:
    """The value that the openai client receives, and what Stagemesh says of it."""
    reply = mesh.openai().chat.completions.create(
        model="smollm2-135m-instruct",
        messages=[{"role": "user", "content": "Name a page."}],
        temperature=0,
        max_tokens=40,
        logit_bias={LESS_THAN: 100},
        response_format={"type": "json_schema", "json_schema": {"name": "page", "schema": SCHEMA}},
        stream=stream,
        extra_headers={HEADER: faults} if faults else {},
    )
    if not stream:
        return json.loads(reply.choices[0].message.content), reply.model_extra["stagemesh"]
    chunks = list(reply)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    return json.loads(text), chunks[-1].model_extra["stagemesh"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_valid_answer_is_mended_where_that_is_sure(mesh: Mesh, stream: bool) -> None:
    value, told = answered(mesh, stream=stream)
    assert value == MET
    assert (told["outcome"], told["validation"]["valid"], told["validation"]["certain"]) == ("complete", True, True)
    [change] = told["validation"]["corrections"]
    assert (change["pointer"], change["from"], change["applied"]) == ("/page", json.dumps(UNMET["page"]), True)


def test_while_the_corrector_is_away_a_valid_answer_is_delivered_and_marked(mesh: Mesh) -> None:
    for stream in (False, True):
        value, told = answered(mesh, stream=stream, faults="correct=error;times=9")
        assert value == UNMET
        assert (told["outcome"], told["validation"]["valid"], told["validation"]["certain"]) == (
            "degraded",
            True,
            False,
        )
        assert [(issue["pointer"], issue["rule"]) for issue in told["validation"]["errors"]] == [("/page", "format")]
        [stage] = [stage for stage in told["stages"] if stage["status"] == "degraded"]
        assert (stage["name"], stage["fallback"]) == ("correct", "verdict")
    give_up_at_s = time.monotonic() + 30
    while answered(mesh, stream=False)[0] != MET:
        assert time.monotonic() < give_up_at_s, "the corrector is not asked again"
        time.sleep(0.2)


def test_the_command_warns_of_it_and_mends_it(mesh: Mesh, tmp_path: Path) -> None:
    schema, text = tmp_path / "schema.json", tmp_path / "text.json"
    schema.write_text(json.dumps(SCHEMA), encoding="utf-8")
    text.write_text(json.dumps(UNMET), encoding="utf-8")
    validated = json.loads(mesh.command("validate", "--schema", str(schema), str(text), "--json").stdout)
    assert (validated["valid"], validated["certain"], validated["value"]) == (True, False, UNMET)
    assert [(issue["pointer"], issue["rule"]) for issue in validated["errors"]] == [("/page", "format")]
    corrected = json.loads(mesh.command("correct", "--schema", str(schema), str(text), "--json").stdout)
    assert (corrected["valid"], corrected["certain"], corrected["value"]) == (True, True, MET)
    assert corrected["errors"] == []
