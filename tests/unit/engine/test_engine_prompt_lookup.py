from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.engine.prompt_lookup import Passage, PromptLookup


def guess(tokens: list[int], num_tokens: int, num_prompt: int | None = None) -> list[int]:
    lookup = PromptLookup()
    lookup.follow(tokens, len(tokens) if num_prompt is None else num_prompt)
    return lookup.guess(tokens, num_tokens)


def test_what_stood_behind_the_last_three_tokens_is_guessed() -> None:
    assert guess([1, 2, 3, 4, 5, 6, 9, 1, 2, 3], 3) == [4, 5, 6]


def test_three_tokens_that_agree_outrank_two_that_agree_later() -> None:
    assert guess([1, 2, 3, 4, 8, 2, 3, 7, 1, 2, 3], 1) == [4]


def test_tokens_never_seen_together_give_no_guess() -> None:
    assert guess([1, 2, 3, 4, 5], 4) == []
    assert guess([1], 4) == []


def test_a_repetition_is_guessed_to_go_on() -> None:
    assert guess([7, 8, 7, 8, 7, 8], 5) == [7, 8, 7, 8, 7]


def test_a_passage_is_followed_past_places_that_occur_again_later() -> None:
    """The fields of a record repeat in each; the one that is being copied goes on, not the one written last."""
    answer = [token for number in range(4) for token in (1, 2, 10 + number, 3, 4, 20 + number)]
    prompt = [*answer, 99, 98]
    lookup = PromptLookup()
    lookup.follow(prompt, len(prompt))
    wrong = []
    for at in range(3, len(answer)):
        lookup.follow(prompt + answer[:at], len(prompt))
        if lookup.guess(prompt + answer[:at], 1) != [answer[at]]:
            wrong.append(at)
    assert wrong == []


def test_after_a_replaced_token_the_passage_goes_on_behind_it() -> None:
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    answer = [1, 2, 3, 50]
    assert guess(prompt + answer, 3, num_prompt=len(prompt)) == [5, 6, 7]


def test_after_left_out_tokens_the_passage_is_picked_up_close_behind() -> None:
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 6, 7, 77]
    answer = [1, 2, 3, 6, 7]
    assert guess(prompt + answer, 2, num_prompt=len(prompt)) == [8, 9]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 60), st.data())
def test_tokens_that_come_in_pieces_are_read_as_those_that_come_at_once(
    tokens: list[int], num_prompt: int, data: st.DataObject
) -> None:
    num_prompt = min(num_prompt, len(tokens))
    whole, pieces = PromptLookup(), PromptLookup()
    read = num_prompt
    pieces.follow(tokens[:read], num_prompt)
    while read < len(tokens):
        read = data.draw(st.integers(read + 1, len(tokens)))
        pieces.follow(tokens[:read], num_prompt)
    whole.follow(tokens[:num_prompt], num_prompt)
    whole.follow(tokens, num_prompt)
    assert pieces.passage == whole.passage
    if (passage := whole.passage) is not None:
        assert 0 < passage.at < len(tokens)
        assert len(whole.guess(tokens, 7)) == 7
        agreed = min(passage.length, passage.at)
        assert isinstance(passage, Passage)
        if passage.length > 1:
            assert tokens[passage.at - agreed : passage.at] == tokens[len(tokens) - agreed :]
