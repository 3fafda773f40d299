"""Documents into passages, text into words: for any text, English and Chinese alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cache.knowledge.analysis import query_words, stemmer, words
from services.cache.knowledge.chunks import MAX_WIDTH, chunks, width
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.knowledge import (
    NUM_SHARDS,
    KnowledgeDocument,
    check_base_name,
    check_document,
    shard_digest,
    shard_of,
)

TEXTS = st.text(max_size=3_000) | st.text(alphabet="ab 。.！\n\n请用电子发票", max_size=3_000)


def document(text: str, document_id: str = "d") -> KnowledgeDocument:
    return KnowledgeDocument(document_id, "title", text)


@given(TEXTS)
def test_passages_hold_all_words_of_the_document_and_none_is_too_wide(text: str) -> None:
    passages = list(chunks(document(text)))
    assert all(width(passage.text) <= MAX_WIDTH + 2 * len(passages) + 80 for passage in passages)
    kept = "".join("".join(passage.text.split()) for passage in passages)
    assert set(kept) == set("".join(text.split()))
    assert len({passage.passage_id for passage in passages}) == len(passages)


def test_a_short_document_is_one_passage_and_a_long_one_is_cut_at_its_paragraphs() -> None:
    assert [passage.text for passage in chunks(document("One.\n\nTwo."))] == ["One.\n\nTwo."]
    paragraphs = [f"Paragraph {i}. " + "word " * 100 for i in range(4)]
    cut = [passage.text for passage in chunks(document("\n\n".join(paragraphs)))]
    assert cut == [paragraph.strip() for paragraph in paragraphs]


def test_chinese_is_cut_at_its_full_stops() -> None:
    sentences = [f"第{i}句" + "很长" * 60 + "。" for i in range(5)]
    cut = [passage.text for passage in chunks(document("".join(sentences)))]
    assert "".join(cut).replace(" ", "") == "".join(sentences)
    assert all(text.endswith("。") for text in cut)


def test_equal_texts_in_two_documents_are_two_passages() -> None:
    (one,), (other,) = list(chunks(document("same", "a"))), list(chunks(document("same", "b")))
    assert one.passage_id != other.passage_id
    assert [passage.passage_id for passage in chunks(document("same", "a"))] == [one.passage_id]


@given(TEXTS)
def test_words_hold_no_space_and_are_the_same_for_text_in_full_width(text: str) -> None:
    found = words(text)
    assert all(word and not any(char.isspace() for char in word) for word in found)
    assert " ".join(found).split() == found


def test_words_are_folded_and_han_characters_come_in_pairs() -> None:
    assert words("Ｅlectronic INVOICES_2024, don't!") == ["electronic", "invoices", "2024", "don", "t"]
    assert words("用电子发票") == ["用电", "电子", "子发", "发票"]
    assert words("票 and 电子A发票") == ["票", "and", "电子", "a", "发票"]


def test_a_question_is_reduced_to_its_telling_words() -> None:
    assert query_words("What is the refund policy of the shop?", 10) == ["refund", "policy", "shop"]
    assert query_words("who are you", 10) == []
    assert query_words("a b c d e f", 2) == ["b", "c"]
    assert stemmer().analyze("invoices invoicing 发票") == ["invoic", "invoic", "发票"]


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=6), st.randoms())
def test_a_shards_digest_does_not_depend_on_the_order(digests: list[bytes], random: object) -> None:
    shuffled = list(digests)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert shard_digest(digests) == shard_digest(shuffled)
    assert shard_digest(digests) != shard_digest([*digests, b"\0" * 32])


@given(st.text())
def test_every_document_has_a_shard(document_id: str) -> None:
    assert 0 <= shard_of(document_id) < NUM_SHARDS


def test_digests_tell_fields_apart() -> None:
    same_letters = [
        KnowledgeDocument("a", "b", "c"),
        KnowledgeDocument("ab", "", "c"),
        KnowledgeDocument("a", "", "bc"),
    ]
    assert len({one.digest() for one in same_letters}) == 3


@pytest.mark.parametrize("name", ["", "none", "A", "a b", "-a", "a" * 64, "a:b", "发票"])
def test_names_that_cannot_be_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_base_name(name)


def test_documents_have_bounds() -> None:
    check_document(KnowledgeDocument("a" * 512, "t", "x"))
    for wrong in (
        KnowledgeDocument("", "t", "x"),
        KnowledgeDocument("a" * 513, "t", "x"),
        KnowledgeDocument("a", "t" * 513, "x"),
        KnowledgeDocument("a", "t", "x" * 1_048_577),
        KnowledgeDocument("a", "t", "\n"),
    ):
        with pytest.raises(InvalidRequest):
            check_document(wrong)
