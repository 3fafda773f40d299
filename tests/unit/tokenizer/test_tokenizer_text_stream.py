import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.text_stream import TextStream

tokens = st.one_of(st.integers(0, 16), st.integers(17, 49_151), st.integers(100, 400))
"""Special tokens, any token, and the region of single bytes and fragments of characters."""


@pytest.fixture(scope="module")
def reference(model: LoadedModel) -> Tokenizer:
    return model.file.build()


@settings(max_examples=400, deadline=None)
@given(chunks=st.lists(st.lists(tokens, max_size=5), max_size=20), keep_special=st.booleans())
def test_the_pieces_joined_are_the_whole_text_and_each_is_a_prefix_that_stays(
    model: LoadedModel, chunks: list[list[int]], keep_special: bool
) -> None:
    token_ids = [token for chunk in chunks for token in chunk]
    whole = model.decode(token_ids, keep_special=keep_special)
    stream = TextStream(model, keep_special=keep_special)
    told = ""
    for index, chunk in enumerate(chunks):
        told += stream.feed(chunk, end=index == len(chunks) - 1)
        assert whole.startswith(told), "what was told may never change"
    assert told == whole


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=60), cuts=st.lists(st.integers(1, 3), max_size=200))
def test_any_text_comes_back_whole_and_without_replacement_characters(
    model: LoadedModel, text: str, cuts: list[int]
) -> None:
    token_ids = model.encoder.encode(text)
    expected = model.decode(token_ids, keep_special=True)
    stream, pieces = TextStream(model, keep_special=True), []
    while token_ids:
        size = cuts.pop() if cuts else 1
        pieces.append(stream.feed(token_ids[:size], end=len(token_ids) <= size))
        token_ids = token_ids[size:]
    assert "".join(pieces) == expected
    assert all("\ufffd" not in piece for piece in pieces) or "\ufffd" in expected


@settings(max_examples=200, deadline=None)
@given(token_ids=st.lists(tokens, max_size=60), keep_special=st.booleans())
def test_decoding_random_tokens_is_the_reference_librarys(
    model: LoadedModel, reference: Tokenizer, token_ids: list[int], keep_special: bool
) -> None:
    expected = reference.decode(token_ids, skip_special_tokens=not keep_special)
    assert model.decode(token_ids, keep_special=keep_special) == expected
