"""Stored pages as bytes: only the very page that is wanted is read, everything else is a miss with its cause."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import KernelLibrary, load_kernels
from services.engine.kernels.native.page_io import checksum
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.page_codec import PageCodec
from services.engine.kv.page_header import CHECKED_FROM, CHECKSUM_AT, HEADER_BYTES, PageLayout, PageName, PageOrigin
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

ORIGIN = PageOrigin(
    tenant_id="acme", epoch=3, revision="r1", tokenizer_hash="t1", precision="q4_1+q8_0", engine_version="0.1.0"
)
LAYOUT = PageLayout(dtype="int8", num_layers=2, num_kv_heads=1, head_dim=32)
NAME = PageName(digest=b"d" * 32, tokens=tuple(range(16)), parent=b"p" * 32)
PAYLOAD = np.random.default_rng(0).bytes(LAYOUT.payload_bytes)
OTHERS: dict[MissCause, tuple[Any, Any, Any]] = {
    MissCause.OTHER_TENANT: (dataclasses.replace(ORIGIN, tenant_id="acme2"), LAYOUT, NAME),
    MissCause.OTHER_EPOCH: (dataclasses.replace(ORIGIN, epoch=4), LAYOUT, NAME),
    MissCause.OTHER_REVISION: (dataclasses.replace(ORIGIN, revision="r2"), LAYOUT, NAME),
    MissCause.OTHER_TOKENIZER: (dataclasses.replace(ORIGIN, tokenizer_hash="t2"), LAYOUT, NAME),
    MissCause.OTHER_PRECISION: (dataclasses.replace(ORIGIN, precision="q8_0"), LAYOUT, NAME),
    MissCause.OTHER_ADAPTER: (dataclasses.replace(ORIGIN, adapter="invoices@1"), LAYOUT, NAME),
    MissCause.OTHER_ENGINE: (dataclasses.replace(ORIGIN, engine_version="0.2.0"), LAYOUT, NAME),
    MissCause.OTHER_DTYPE: (ORIGIN, dataclasses.replace(LAYOUT, dtype="bfloat16"), NAME),
    MissCause.OTHER_LAYOUT: (ORIGIN, dataclasses.replace(LAYOUT, num_layers=1, num_kv_heads=2), NAME),
    MissCause.OTHER_PARENT: (ORIGIN, LAYOUT, dataclasses.replace(NAME, parent=b"")),
    MissCause.OTHER_TOKENS: (ORIGIN, LAYOUT, dataclasses.replace(NAME, tokens=(*range(15), 99))),
    MissCause.OTHER_KEY: (ORIGIN, LAYOUT, dataclasses.replace(NAME, digest=b"e" * 32)),
}
"""Each differs from the wanted page in one thing."""
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def library(default_model_files: ModelFiles) -> KernelLibrary:
    return load_kernels(default_model_files.cache_dir / "kernels")


@pytest.fixture(scope="module")
def codec(library: KernelLibrary) -> PageCodec:
    return PageCodec(library, ORIGIN, LAYOUT)


@pytest.fixture(scope="module")
def value(codec: PageCodec) -> bytes:
    return codec.encode(NAME, PAYLOAD)


def sealed_again(library: KernelLibrary, value: bytearray) -> bytes:
    """As whoever can write to the store would do it: the checksum fits."""
    value[CHECKSUM_AT:CHECKED_FROM] = checksum(library, np.frombuffer(bytes(value[CHECKED_FROM:]), np.uint8))
    return bytes(value)


def test_the_wanted_page_is_read(codec: PageCodec, value: bytes) -> None:
    assert len(value) == codec.value_bytes == HEADER_BYTES + LAYOUT.payload_bytes
    assert HEADER_BYTES % 64 == 0, "payloads are not aligned"
    found = codec.decode(NAME, value)
    assert isinstance(found, memoryview)
    assert found == PAYLOAD


@pytest.mark.parametrize("cause", OTHERS)
def test_a_page_that_differs_in_one_thing_is_a_miss_by_that_cause(
    library: KernelLibrary, codec: PageCodec, value: bytes, cause: MissCause
) -> None:
    origin, layout, name = OTHERS[cause]
    other = PageCodec(library, origin, layout)
    stored = other.encode(name, bytes(layout.payload_bytes))
    assert codec.decode(NAME, stored) is cause
    assert other.decode(name, value) is cause


@given(st.data())
@quick
def test_every_byte_of_the_header_counts_even_where_the_checksum_fits(
    library: KernelLibrary, codec: PageCodec, value: bytes, data: st.DataObject
) -> None:
    at = data.draw(st.sampled_from([*range(CHECKSUM_AT), *range(CHECKED_FROM, HEADER_BYTES)]))
    altered = bytearray(value)
    altered[at] ^= data.draw(st.integers(1, 255))
    assert isinstance(codec.decode(NAME, sealed_again(library, altered)), MissCause)


@given(st.data())
@quick
def test_any_flipped_bytes_are_a_miss(codec: PageCodec, value: bytes, data: st.DataObject) -> None:
    flips = data.draw(st.dictionaries(st.integers(0, len(value) - 1), st.integers(1, 255), min_size=1, max_size=8))
    altered = bytearray(value)
    for at, mask in flips.items():
        altered[at] ^= mask
    found = codec.decode(NAME, bytes(altered))
    assert isinstance(found, MissCause)
    if min(flips) >= CHECKSUM_AT:
        assert found is MissCause.BAD_CHECKSUM


@pytest.mark.parametrize("bit", range(8))
def test_each_single_flipped_bit_is_a_miss(codec: PageCodec, value: bytes, bit: int) -> None:
    for at in range(len(value)):
        altered = bytearray(value)
        altered[at] ^= 1 << bit
        assert isinstance(codec.decode(NAME, bytes(altered)), MissCause), at


@given(st.data())
@quick
def test_a_page_cut_short_or_with_more_behind_it_is_a_miss(codec: PageCodec, value: bytes, data: st.DataObject) -> None:
    assert codec.decode(NAME, value[: data.draw(st.integers(0, len(value) - 1))]) is MissCause.TRUNCATED
    assert codec.decode(NAME, value + data.draw(st.binary(min_size=1))) is MissCause.TRAILING_BYTES


@given(st.binary(max_size=4096), st.booleans())
@example(b"", False)
@example(b"\xff" * 4096, True)
@quick
def test_garbage_is_a_miss(codec: PageCodec, value: bytes, garbage: bytes, has_start: bool) -> None:
    assert isinstance(codec.decode(NAME, value[:16] * has_start + garbage), MissCause)


def test_two_pages_that_changed_places_are_two_misses(codec: PageCodec, value: bytes) -> None:
    other = PageName(digest=b"x" * 32, tokens=NAME.tokens, parent=NAME.parent)
    assert codec.decode(other, value) is MissCause.OTHER_KEY
    assert codec.decode(NAME, codec.encode(other, PAYLOAD)) is MissCause.OTHER_KEY


def test_another_version_of_the_format_is_told_apart_from_damage(
    library: KernelLibrary, codec: PageCodec, value: bytes
) -> None:
    altered = bytearray(value)
    struct.pack_into("<I", altered, 8, 2)
    assert codec.decode(NAME, sealed_again(library, altered)) is MissCause.OTHER_VERSION


def test_a_header_is_written_in_front_of_a_payload_that_lies_in_place(codec: PageCodec, value: bytes) -> None:
    room = np.full((3, codec.value_bytes), 7, np.uint8)
    room[1, HEADER_BYTES:] = np.frombuffer(PAYLOAD, np.uint8)
    codec.seal(NAME, room[1])
    assert room[1].tobytes() == value
    assert (room[[0, 2]] == 7).all()
