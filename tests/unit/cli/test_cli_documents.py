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
    found = [(one.document_id, one.title) for one in read_source(tmp_path).documents]
    assert found == [("a.txt", "a"), ("b/x.md", "Heading")]


def test_a_file_gives_a_document_a_line(tmp_path: Path) -> None:
    source = lines(tmp_path / "x.jsonl", {"id": "1", "text": "发票"}, "", {"id": "2", "text": "b", "title": "B"})
    assert [(one.document_id, one.title, one.text) for one in read_source(source).documents] == [
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


def test_files_that_are_no_text_are_all_named_with_what_to_do_or_left_out(tmp_path: Path) -> None:
    for name in ("bad.txt", "worse.md"):
        (tmp_path / name).write_bytes(b"\xff\xfe\x00")
    (tmp_path / "good.txt").write_text("text")
    with pytest.raises(CommandError, match=r"2 files \(bad\.txt, worse\.md\) .*convert to UTF-8.*--skip-unreadable"):
        read_source(tmp_path)
    found = read_source(tmp_path, skip_unreadable=True)
    assert ([one.document_id for one in found.documents], found.unreadable) == (["good.txt"], ["bad.txt", "worse.md"])


def test_of_many_files_that_are_no_text_the_first_are_named(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"{number:02}.txt").write_bytes(b"\xff")
    with pytest.raises(CommandError, match=r"30 files .*19\.txt and 10 more") as caught:
        read_source(tmp_path)
    assert "20.txt" not in caught.value.message


def test_a_link_out_of_the_folder_is_left_out_and_named_and_one_within_it_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "a.txt").write_text("text")
    (folder / "within.md").symlink_to(folder / "a.txt")
    (folder / "link.md").symlink_to(tmp_path / "secret.txt")
    found = read_source(folder)
    assert [one.document_id for one in found.documents] == ["a.txt", "within.md"]
    assert found.outside == ["link.md"]


@pytest.mark.parametrize("field", ["id", "title"])
def test_control_characters_in_ids_and_titles_are_refused(tmp_path: Path, field: str) -> None:
    source = lines(tmp_path / "x.jsonl", {"id": "1", "text": "x", field: "a\x1b[2J"})
    with pytest.raises(CommandError, match="control characters") as caught:
        read_source(source)
    assert "\x1b" not in caught.value.message


def test_a_heading_loses_its_control_characters(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Red\x1b[31m\tTitle\ntext")
    assert read_source(tmp_path).documents[0].title == "Red [31m Title"
