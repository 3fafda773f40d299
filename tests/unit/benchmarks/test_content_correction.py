"""The benchmark of faults of content, in its short form."""

import json
from pathlib import Path

import pytest
from adapter_support import write_random_adapter

from benchmarks import content_correction
from benchmarks.content_cases import templates
from stagemesh.models.store import locate
from stagemesh.runtime.mesh_config import MeshConfig


@pytest.mark.parametrize(
    ("source", "each", "cases"), [("stories", "1", 60), ("second", "2", 30), ("open", "1", 100), ("held", "1", 160)]
)
def test_it_ends_with_its_figures(
    source: str, each: str, cases: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["content_correction.py", "--cases", source, "--each", each, "--json"])
    content_correction.main()
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["cases"] > cases
    assert figures["certain_wrong"] == 0
    assert figures["clean_unchanged"]
    assert 0 < figures["certain_share"] <= 1


def test_with_an_adapter_both_results_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = MeshConfig()
    adapter = write_random_adapter(tmp_path / "adapter", locate(mesh, mesh.default_model), seed=1, strength=0.0)
    cases = [case for case in templates.cases(3, 1, "second") if case.kind == "swapped"]
    monkeypatch.setattr(content_correction, "_cases", lambda source, each, seed: cases)
    monkeypatch.setattr("sys.argv", ["content_correction.py", "--adapter", str(adapter), "--json"])
    content_correction.main()
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    ranked = figures["with_adapter"]
    assert ranked["cases"] == figures["cases"] == 2
    assert ranked["certain_wrong"] == 0, "an adapter without a calibration makes nothing certain"
    assert 0 < ranked["asked"] <= 2, "what the rules settle is not asked for"
    assert 0 < ranked["passes_max"] <= 30
