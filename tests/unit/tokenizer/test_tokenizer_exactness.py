import pytest
from tokenizer_text_cases import cases

from services.tokenizer.hard_strings import HARD_STRINGS
from services.tokenizer.loaded_model import LoadedModel
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import load_tokenizer

NUM_CASES = 2_400


def test_the_fast_library_encodes_every_text_like_the_reference(
    model: LoadedModel, reference_model: LoadedModel
) -> None:
    assert (model.encoder.library, reference_model.encoder.library) == ("fastokens", "tokenizers")
    wrong = [text for text in cases(NUM_CASES) if model.encoder.encode(text) != reference_model.encoder.encode(text)]
    assert wrong == []


def test_splitting_at_special_tokens_first_changes_nothing(model: LoadedModel) -> None:
    reference = model.file.build()
    wrong = [
        text
        for text in (*HARD_STRINGS, *cases(600, seed=21))
        if model.encode_raw(text, add_bos=True) != reference.encode(text).ids
    ]
    assert wrong == []


def test_decoding_is_the_reference_librarys(model: LoadedModel) -> None:
    reference = model.file.build()
    for text in cases(400, seed=22):
        ids = reference.encode(text).ids
        for keep in (True, False):
            assert model.decode(ids, keep_special=keep) == reference.decode(ids, skip_special_tokens=not keep)


def test_digits_are_tokens_one_by_one(model: LoadedModel) -> None:
    assert [model.decode([token], keep_special=True) for token in model.encoder.encode("2024")] == list("2024")


def test_known_token_ids_of_the_published_tokenizer(model: LoadedModel) -> None:
    """Written down from the published tokenizer of SmolLM2, so that a wrong conversion cannot pass unseen."""
    assert model.encode_raw("<|im_start|>user\nHello<|im_end|>", add_bos=True) == [1, 4093, 198, 19556, 2]


def test_a_run_of_blanks_beyond_the_fast_librarys_stack_is_still_encoded(
    model: LoadedModel, reference_model: LoadedModel
) -> None:
    text = " " * 600_000
    assert model.encoder.encode(text) == reference_model.encoder.encode(text)


def test_the_vocabulary_has_as_many_rows_as_the_model(default_model_files: ModelFiles) -> None:
    file = load_tokenizer(default_model_files)
    assert file.vocab_size == len(file.all_token_bytes) == 49_152
    assert file.token_bytes(2) == b"<|im_end|>"
    with pytest.raises(IndexError):
        file.token_bytes(-1)
