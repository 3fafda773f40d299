"""The benchmark of faults of content, in its short form."""

import json

import pytest

from benchmarks import content_correction


@pytest.mark.parametrize(("source", "each", "cases"), [("stories", "1", 60), ("second", "2", 30)])
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
