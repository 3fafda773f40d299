"""`stagemesh correct` against a running mesh: gateway, corrector and its child processes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from mesh_support import Mesh

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_no": {"type": "string"},
        "date": {"type": "string", "format": "date"},
        "total": {"type": "number"},
    },
    "required": ["order_no", "date", "total"],
    "additionalProperties": False,
}


def test_a_text_is_corrected_by_the_mesh_with_keys_and_a_source(mesh: Mesh, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("schema.json", "orders.txt", "mail.txt", "answer.txt")}
    files["schema.json"].write_text(json.dumps(SCHEMA), encoding="utf-8")
    files["orders.txt"].write_text("AB-1001\nCD-2002\n", encoding="utf-8")
    files["mail.txt"].write_text("Order no AB-1001 of 2025-03-05. The total is $1,250.00.", encoding="utf-8")
    files["answer.txt"].write_text("Sure: {'orderNo': 'AB-10O1', date: 'March 5, 2025',}", encoding="utf-8")
    options = ("--anchors", f"/order_no={files['orders.txt']}", "--source", str(files["mail.txt"]), "--json")
    shown = mesh.command("correct", "--schema", str(files["schema.json"]), *options, str(files["answer.txt"]))
    answer = json.loads(shown.stdout)
    assert answer["value"] == {"order_no": "AB-1001", "date": "2025-03-05", "total": 1250}
    assert {change["step"] for change in answer["changes"]} >= {"syntax", "key", "anchor", "schema", "source"}


def test_many_cases_are_corrected_in_their_order(mesh: Mesh, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    texts = [f'{{"order_no": "A-{n}", "date": "2025/3/{n}", "total": "1,00{n}.50"}}' for n in range(1, 10)]
    cases = [{"id": n, "text": text, "schema": SCHEMA} for n, text in enumerate(texts)]
    file.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    shown = mesh.command("correct", "--jsonl", str(file))
    results = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [result["id"] for result in results] == list(range(9))
    assert all(result["valid"] and result["certain"] for result in results)
    assert results[4]["value"] == {"order_no": "A-5", "date": "2025-03-05", "total": 1005.5}


def test_what_a_tenant_shares_is_collected_and_what_it_keeps_is_not(mesh: Mesh, tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"

    def correct(order_no: str) -> None:
        case = {
            "id": order_no,
            "text": f'{{"order_no": "{order_no}", "date": "2025/3/1", "total": "5"}}',
            "schema": SCHEMA,
        }
        file.write_text(json.dumps(case) + "\n", encoding="utf-8")
        mesh.command("correct", "--jsonl", str(file))

    correct("KEPT-1")
    mesh.command("tenant", "corrections", "dev", "--share")
    try:
        deadline_s = time.monotonic() + 20  # gateways notice within seconds
        count = 0
        while not count and time.monotonic() < deadline_s:
            correct("SHARED-1")
            collected = json.loads(mesh.command("corrector", "collect", "--idle", "2", "--json").stdout)
            count = collected["added"]
        status = json.loads(mesh.command("corrector", "status", "--json").stdout)
        dev = status["collected"]["dev"]
        assert dev["cases"] >= 1
        assert dev["certain"] == dev["cases"]
        assert status["adapters"] == {"in_use": [], "changes": []}
    finally:
        mesh.command("tenant", "corrections", "dev", "--keep")
    dropped = json.loads(mesh.command("corrector", "collect", "--idle", "1", "--json").stdout)
    assert dropped["dropped_tenants"] == ["dev"]
    assert json.loads(mesh.command("corrector", "status", "--json").stdout)["collected"] == {}
