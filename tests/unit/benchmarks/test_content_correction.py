"""The benchmark of faults of content, in its short form."""

import json

import pytest

from benchmarks import content_correction


def test_it_ends_with_its_figures(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["content_correction.py", "--each", "1", "--json"])
    content_correction.main()
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["cases"] > 60
    assert figures["certain_wrong"] == 0
    assert figures["clean_unchanged"]
    assert 0 < figures["certain_share"] <= 1
