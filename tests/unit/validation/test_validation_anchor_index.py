"""The index of an anchor set answers as comparing with every key does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import OSA

from stagemesh.validation.anchor_build import build
from stagemesh.validation.anchor_index import MAX_COMPARED, AnchorIndex
from stagemesh.validation.anchor_match import MAX_NEAR, Found, Match, may_be_edited
from stagemesh.validation.anchors import MIN_INDEXED, Anchor, KeySet, compile_keys, open_index
from stagemesh.validation.forms import form_of
from stagemesh.validation.limits import Limits

Make = Callable[..., AnchorIndex]
SMALL = st.text("ab1 -", min_size=1, max_size=7).filter(str.strip)
MIXED = st.text("aB１1张三 -é\U0002a6a5", min_size=1, max_size=6).filter(lambda text: form_of(text) != "")


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def index(keys: Sequence[str], *, ignore_case: bool = False, max_edits: int = 1) -> AnchorIndex:
        build(list(dict.fromkeys(keys)), tmp_path / "set.idx", ignore_case=ignore_case, max_edits=max_edits)
        return AnchorIndex.open(tmp_path / "set.idx")

    return index


def by_comparing(keys: Sequence[str], value: str, *, ignore_case: bool, max_edits: int) -> tuple[Match, set[str]]:
    """What the index must say, from the distance to every key."""
    fold = str.casefold if ignore_case else str
    exact = [key for key in keys if fold(key) == fold(value)]
    if exact:
        return Match.EXACT, set(exact)
    form = fold(form_of(value))
    distances = {key: OSA.distance(fold(form_of(key)), form) for key in keys}
    nearest = min(distances.values(), default=99)
    if nearest > 0 and not may_be_edited(form):
        nearest = 99
    near = {key for key, distance in distances.items() if distance == nearest} if nearest <= max_edits else set()
    return (Match.UNKNOWN if not near else Match.NEAR if len(near) == 1 else Match.AMBIGUOUS), near


@pytest.mark.parametrize("max_edits", [0, 1, 2])
@pytest.mark.parametrize("ignore_case", [False, True])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_lookup_says_what_comparing_with_every_key_says(
    make: Make, ignore_case: bool, max_edits: int, data: st.DataObject
) -> None:
    text = data.draw(st.sampled_from([SMALL, MIXED]))
    keys = data.draw(st.lists(text, min_size=1, max_size=12, unique=True))
    index = make(keys, ignore_case=ignore_case, max_edits=max_edits)
    for value in [*keys, *data.draw(st.lists(text, max_size=8))]:
        found = index.lookup(value)
        match, near = by_comparing(keys, value, ignore_case=ignore_case, max_edits=max_edits)
        assert found.match is match, value
        assert set(found.keys) <= near
        if match is not Match.EXACT:
            assert set(found.keys) == near


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.lists(MIXED, min_size=1, max_size=12, unique=True), value=MIXED, ignore_case=st.booleans())
def test_stored_keys_and_keys_of_a_request_are_compared_alike(
    make: Make, keys: list[str], value: str, ignore_case: bool
) -> None:
    stored, given_keys = (
        make(keys, ignore_case=ignore_case).lookup(value),
        KeySet(keys, ignore_case=ignore_case).lookup(value),
    )
    assert stored.match is given_keys.match
    assert stored.match is Match.EXACT or set(stored.keys) == set(given_keys.keys)


def test_keys_come_back_as_they_were_given_shorter_ones_first(make: Make) -> None:
    index = make(["ＡＢＣ－１", "x  y", "张 三", "plain"])
    assert index.some(10) == ("张 三", "x  y", "ＡＢＣ－１", "plain")
    assert index.spread(2) == ("张 三", "ＡＢＣ－１")
    assert index.lookup("ABC-1") == Found(Match.NEAR, ("ＡＢＣ－１",))
    assert index.lookup("张三") == Found(Match.NEAR, ("张 三",))
    assert len(index) == 4


def test_where_very_many_keys_are_alike_none_is_suggested(make: Make) -> None:
    keys = [f"key{chr(0x4E00 + number)}" for number in range(MAX_COMPARED + 1)]
    index = make(keys)
    assert index.lookup("key?") == Found(Match.AMBIGUOUS)
    assert index.lookup(keys[7]) == Found(Match.EXACT, (keys[7],))


def test_at_most_a_few_of_many_near_keys_are_told(make: Make) -> None:
    found = make([f"key{number:02}" for number in range(50)]).lookup("key")
    assert found.match is Match.UNKNOWN
    found = make([f"key-{chr(0x4E00 + number)}" for number in range(50)]).lookup("key-?")
    assert (found.match, len(found.keys)) == (Match.AMBIGUOUS, MAX_NEAR)


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"something else")
    with pytest.raises(ValueError, match="no anchor index"):
        open_index(str(tmp_path / "x"))


def test_many_keys_of_a_request_are_indexed_and_say_the_same() -> None:
    keys = tuple(f"K-{number:05}" for number in range(0, 10 * MIN_INDEXED, 10))
    indexed = compile_keys(Anchor("/x", keys), "anchors[0]", Limits())
    assert isinstance(indexed, AnchorIndex)
    compared = KeySet(keys, ignore_case=False)
    for value in ("K-00010", "K-0001", "K-00011", "k-00010", "K-001O0", "X"):
        assert indexed.lookup(value).match is compared.lookup(value).match
        assert set(indexed.lookup(value).keys) == set(compared.lookup(value).keys)


def test_a_value_of_any_length_is_looked_up(make: Make) -> None:
    long_form = "\ufdfa" * 200  # 18 characters each in compatibility form
    index = make(["ab", long_form, "x" * 256], max_edits=2)
    assert index.lookup("y" * 1_000_000) == Found(Match.UNKNOWN)
    assert index.lookup("x" * 258) == Found(Match.NEAR, ("x" * 256,))
    assert index.lookup("x" * 259) == Found(Match.UNKNOWN)
    assert index.lookup(long_form[:-1]) == Found(Match.UNKNOWN)
    assert index.lookup(form_of(long_form)) == Found(Match.NEAR, (long_form,))
    assert index.lookup("") == Found(Match.UNKNOWN)


def test_of_many_keys_of_one_form_each_is_exact(make: Make) -> None:
    keys = [f"a{' ' * number}b" for number in range(1, 60)]
    index = make(keys)
    assert all(index.lookup(key) == Found(Match.EXACT, (key,)) for key in keys)
    assert len(index.lookup("a\u3000b").keys) == MAX_NEAR
