from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.engine.stop import StopMatcher

text = st.text(alphabet="abä", max_size=12)


@given(st.lists(st.text(alphabet="abä", min_size=1, max_size=4), min_size=1, max_size=3), st.lists(text, max_size=8))
def test_the_first_complete_stop_string_is_found_wherever_the_text_is_cut(stop: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(stop)
    seen = b""
    for piece in pieces:
        before, seen = seen, seen + piece.encode()
        found = matcher.push(piece.encode())
        ends = [pattern for pattern in stop if seen.find(pattern.encode(), max(0, len(before) - 20)) >= 0]
        if any(pattern.encode() in before for pattern in stop):
            return  # the engine would have stopped
        assert (found is not None) == bool([pattern for pattern in stop if pattern.encode() in seen]), (seen, ends)
        if found is not None:
            first = min(seen.find(pattern.encode()) for pattern in stop if pattern.encode() in seen)
            assert seen.find(found.encode()) == first
            return


def test_a_character_cut_in_half_is_matched() -> None:
    matcher = StopMatcher(["。"])
    encoded = "。".encode()
    assert matcher.push(encoded[:1]) is None
    assert matcher.push(encoded[1:]) == "。"


def test_without_stop_strings_nothing_is_found() -> None:
    assert StopMatcher(()).push(b"anything") is None
