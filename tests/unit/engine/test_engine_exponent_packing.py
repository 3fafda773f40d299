"""bfloat16 pages held in fewer bytes come back bit for bit, whatever is in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services.engine.kernels.native.build import supported_levels
from services.engine.kernels.native.library import load_kernels
from services.engine.kv.exponent_packing import ExponentPacking
from services.engine.kv.host_tier import HostTier
from services.engine.kv.page_header import HEADER_BYTES, PageLayout
from stagemesh.models.store import ModelFiles

pytestmark = pytest.mark.skipif(not supported_levels(), reason="the native kernels need AVX2")

LAYOUT = PageLayout(dtype="bfloat16", num_layers=2, num_kv_heads=1, head_dim=32)
NUM_VALUES = LAYOUT.payload_bytes // 2
quick = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(scope="module")
def packing(default_model_files: ModelFiles) -> ExponentPacking:
    return ExponentPacking(load_kernels(default_model_files.cache_dir / "kernels"), LAYOUT)


def value_of(words: npt.NDArray[np.uint16]) -> bytes:
    return b"h" * HEADER_BYTES + words.astype("<u2").tobytes()


def bell(seed: int) -> npt.NDArray[np.uint16]:
    """Numbers as keys and values are distributed."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=NUM_VALUES).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def test_numbers_of_a_bell_curve_take_seventy_seven_percent(packing: ExponentPacking) -> None:
    value = value_of(bell(1))
    packed = packing.pack(value)
    assert len(packed) / len(value) < 0.8
    assert packing.unpack(packed) == value


@given(st.data())
@quick
def test_any_numbers_come_back(packing: ExponentPacking, data: st.DataObject) -> None:
    words = bell(data.draw(st.integers(0, 9)))
    others = data.draw(st.dictionaries(st.integers(0, NUM_VALUES - 1), st.integers(0, 0xFFFF), max_size=300))
    words[list(others)] = np.array(list(others.values()), np.uint16)
    value = value_of(words)
    packed = packing.pack(value)
    assert len(packed) <= len(value)
    assert packing.unpack(packed) == value


@pytest.mark.parametrize("place", range(32))
@pytest.mark.parametrize("exponent", [0, 112, 113, 255])
def test_each_place_of_a_group_may_hold_a_far_number(packing: ExponentPacking, place: int, exponent: int) -> None:
    words = np.full(NUM_VALUES, 127 << 7, np.uint16)
    words[32 + place] = 0x8000 | exponent << 7 | 0x55
    value = value_of(words)
    assert len(packing.pack(value)) < len(value)
    assert packing.unpack(packing.pack(value)) == value


@pytest.mark.parametrize("fill", [0x0000, 0x8000, 0x7F80, 0xFFFF])
def test_a_page_of_one_number_comes_back(packing: ExponentPacking, fill: int) -> None:
    value = value_of(np.full(NUM_VALUES, fill, np.uint16))
    assert packing.unpack(packing.pack(value)) == value


def test_noise_that_would_grow_stays_as_it_is(packing: ExponentPacking) -> None:
    value = value_of(np.random.default_rng(0).integers(0, 0x10000, NUM_VALUES).astype(np.uint16))
    assert packing.pack(value) is value
    assert packing.unpack(value) is value


@given(st.data())
@example(None)
@quick
def test_what_was_not_packed_is_refused_or_gives_a_page_of_the_right_size(
    packing: ExponentPacking, data: st.DataObject | None
) -> None:
    packed = bytearray(packing.pack(value_of(bell(3))))
    if data is None:
        packed[HEADER_BYTES : HEADER_BYTES + 4] = b"\xff" * 4
    else:
        at = data.draw(st.integers(HEADER_BYTES, len(packed)))
        packed[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    try:
        found = packing.unpack(bytes(packed[: HEADER_BYTES + LAYOUT.payload_bytes]))
    except ValueError:
        return
    assert len(found) == HEADER_BYTES + LAYOUT.payload_bytes


def test_the_host_tier_holds_more_pages_packed(packing: ExponentPacking) -> None:
    values = [value_of(bell(seed)) for seed in range(40)]
    budget = 20 * (len(values[0]) + 400)
    pairs = [(seed.to_bytes(32, "big"), value) for seed, value in enumerate(values)]
    plain, packed = HostTier(budget), HostTier(budget, packing=packing)
    assert plain.put(b"a", pairs) == 20
    num_packed = packed.put(b"a", pairs)
    assert num_packed > 22
    assert packed.get(b"a", [name for name, _ in pairs]) == values[:num_packed]
