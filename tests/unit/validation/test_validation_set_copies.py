"""Index files on this machine: a file stays while it is used, and goes when it is replaced, dropped or too much."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stagemesh.runtime import redis_client
from stagemesh.validation.sets.config import AnchorSetsConfig
from stagemesh.validation.sets.copies import Copies, Copy
from stagemesh.validation.sets.manifest import Manifest, unpack
from stagemesh.validation.sets.store import SetStore


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    """Of a store that is never asked."""
    client = redis_client.connect("redis://127.0.0.1:1/0")
    made = Copies(SetStore(client), AnchorSetsConfig(max_local_mb=64), "validator", tmp_path)
    yield made
    asyncio.run(made.close())


def adopt(copies: Copies, generation: int, name: str = "skus", megabytes: int = 1) -> Copy:
    path = copies.folder / f"{name}-{generation}.idx"
    with path.open("wb") as file:
        file.truncate(megabytes << 20)
    return copies.adopt("acme", manifest(generation, name), path)


def manifest(generation: int, name: str = "skus") -> Manifest:
    return Manifest(
        name=name,
        generation=generation,
        keys=1,
        repeated_keys=0,
        key_bytes=1,
        stored_bytes=1,
        ignore_case=False,
        max_edits=1,
        token=f"{name}{generation}",
        chunks=1,
        updated_ms=1,
    )


def left(copies: Copies) -> list[str]:
    return sorted(path.stem for path in copies.folder.glob("*.idx"))


def test_a_replaced_file_stays_until_its_last_user_has_done(copies: Copies) -> None:
    old = adopt(copies, 1)
    with copies.using(old), copies.using(old):
        adopt(copies, 2)
        assert left(copies) == ["skus-1", "skus-2"]
    assert left(copies) == ["skus-2"]


def test_a_build_that_ends_after_a_later_one_is_not_taken(copies: Copies) -> None:
    newer = adopt(copies, 2)
    given = adopt(copies, 1)
    assert given is newer, "whoever waited for the older one gets a file that is there"
    assert left(copies) == ["skus-2"]
    assert copies.has("acme", manifest(2))


def test_what_was_used_longest_ago_makes_room_but_never_what_is_in_use(copies: Copies) -> None:
    used = adopt(copies, 1, "a", 30)
    with copies.using(used):
        adopt(copies, 2, "b", 30)
        adopt(copies, 3, "c", 30)
        assert left(copies) == ["a-1", "c-3"]
    assert not copies.has("acme", manifest(2, "b"))


def test_a_dropped_set_goes_and_another_tenants_stays(copies: Copies) -> None:
    adopt(copies, 1)
    copies.forget("other", "skus")
    assert left(copies) == ["skus-1"]
    copies.forget("acme", "skus")
    assert left(copies) == []


def test_a_manifest_comes_back_as_it_was() -> None:
    assert unpack(manifest(7).pack().encode()) == manifest(7)
