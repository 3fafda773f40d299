"""Documents on disk, read for a sync."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stagemesh.cli.client.documents import read_source
from stagemesh.cli.exits import CommandError


def lines(path: Path, *values: object) -> Path:
    path.write_text("\n".join(value if isinstance(value, str) else json.dumps(value) for value in values))
    return path


def test_a_folder_gives_its_text_files_with_paths_as_ids_and_headings_as_titles(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.md").write_text("intro\n## Heading  \ntext")
    (tmp_path / "a.txt").write_text("no heading")
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "skip.pdf").write_bytes(b"\xff\xfe")
    found = [(one.document_id, one.title) for one in read_source(tmp_path)]
    assert found == [("a.txt", "a"), ("b/x.md", "Heading")]


def test_a_file_gives_a_document_a_line(tmp_path: Path) -> None:
    source = lines(tmp_path / "x.jsonl", {"id": "1", "text": "发票"}, "", {"id": "2", "text": "b", "title": "B"})
    assert [(one.document_id, one.title, one.text) for one in read_source(source)] == [
        ("1", "", "发票"),
        ("2", "B", "b"),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "must be an object"),
        ({"id": 1, "text": "x"}, "must be an object"),
        ({"id": "1"}, "must be an object"),
        ({"id": "1", "text": "x", "title": None}, "must be an object"),
        ({"id": "", "text": "x"}, "needs an ID"),
        ({"id": "1", "text": " "}, "needs a text"),
        ('{"id": "1", "text": "\\ud800"}', "surrogate"),
        ({"id": "first", "text": "again"}, "occurs twice"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_with_its_place(tmp_path: Path, line: object, words: str) -> None:
    source = lines(tmp_path / "x.jsonl", {"id": "first", "text": "x"}, line)
    with pytest.raises(CommandError, match=words) as caught:
        read_source(source)
    assert "x.jsonl:2" in caught.value.message
    assert caught.value.exit_code == 2


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match=r"bad\.txt cannot be read"):
        read_source(tmp_path)
