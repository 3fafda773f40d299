"""Adapters of the corrector in a running mesh: tried, promoted and rolled back while corrections go on."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from adapter_support import write_random_adapter
from mesh_support import Mesh, wait_until

from services.corrector.adapters.judged import Judged
from services.corrector.adapters.operations import Needs
from services.engine.kernels.native.build import supported_levels
from stagemesh.cli.client.corrector_adapters import operate
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="adapters need the native kernels")

SCHEMA = {
    "type": "object",
    "properties": {"buyer": {"type": "string"}, "seller": {"type": "string"}},
    "required": ["buyer", "seller"],
}
SOURCE = "Anna Berger and Boris Clark met in Lyon, and Anna Berger agreed to deliver what Boris Clark had asked for."
JUDGED = Judged(
    fields=120, candidate_right=100, present_right=80, only_candidate=25, only_present=5,
    candidate_sure=30, candidate_sure_right=30, present_sure=10, present_sure_right=10,
)  # fmt: skip
NUM_CASES = 2


def corrected(mesh: Mesh, folder: Path, number: int) -> list[dict[str, Any]]:
    """Objects that leave something to judge."""
    file = folder / f"cases-{number}.jsonl"
    value = {"buyer": "Anna Berger", "seller": "Boris Clark"}
    cases = [
        {"id": n, "text": json.dumps({**value, "number": NUM_CASES * number + n}), "schema": SCHEMA, "source": SOURCE}
        for n in range(NUM_CASES)
    ]
    file.write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    done: subprocess.CompletedProcess[str] = mesh.command("correct", "--jsonl", str(file))
    return [json.loads(line) for line in done.stdout.splitlines()]


def live(mesh: Mesh) -> dict[str, Any]:
    (record,) = json.loads(mesh.command("corrector", "status", "--json").stdout)["adapters"]["in_use"]
    return dict(record)


def test_a_candidate_is_promoted_and_rolled_back_while_corrections_go_on_and_none_fails(
    mesh: Mesh, tmp_path: Path, default_model_files: ModelFiles
) -> None:
    folders = [mesh.state / "adapters" / name for name in ("one", "two")]
    for seed, folder in enumerate(folders):
        write_random_adapter(folder, default_model_files, seed=seed, rank=4, strength=0.1)
    one, two = folders
    needs = Needs(fields=0, compared=0, answered=0)
    operate(mesh.state, None, lambda it: it.candidate("", one, JUDGED))
    operate(mesh.state, None, lambda it: it.promote("", needs, stale=0, force=False))
    operate(mesh.state, None, lambda it: it.candidate("", two, JUDGED))
    results: list[dict[str, Any]] = []
    ended = Event()

    def go_on() -> None:
        for number in count():
            results.extend(corrected(mesh, tmp_path, number))
            if ended.is_set():
                return

    with ThreadPoolExecutor(1) as pool:
        going = pool.submit(go_on)
        try:
            mesh.command("corrector", "canary", "50%")
            refused = mesh.command("corrector", "promote", check=False)
            assert (refused.returncode, "CANDIDATE_NOT_BETTER" in refused.stderr) == (4, True)
            wait_until(lambda: (live(mesh)["live"] or {}).get("compared", 0) > 0, 60, "a comparison")
            assert json.loads(mesh.command("corrector", "promote", "--force", "--json").stdout)["present"]["name"] == (
                "corrector.green"
            )
            back = json.loads(mesh.command("corrector", "rollback", "--json").stdout)
            assert (back["present"]["name"], back["candidate"]) == ("corrector.blue", None)
        finally:
            ended.set()
        going.result()
    assert len(results) >= 2 * NUM_CASES
    assert all(result["valid"] for result in results)
    said = json.dumps([result["errors"] for result in results])
    assert "ADAPTER_NOT_LOADED" not in said
    assert "MODEL_MISMATCH" not in said, "no correction met an adapter that was on its way"
    changes = json.loads(mesh.command("corrector", "status", "--json").stdout)["adapters"]["changes"]
    assert [change["what"] for change in changes] == [
        "rollback", "promote", "canary", "candidate", "promote", "candidate",
    ]  # fmt: skip
    assert "forced although" in changes[1]["detail"]
    mesh.command("corrector", "rollback")
    assert live(mesh)["present"] is None
    for slot in ("blue", "green"):
        mesh.command("adapter", "unload", f"corrector.{slot}")
