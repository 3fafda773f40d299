"""No message can turn into control tokens, whatever the template does with it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.tokenizer.conversation import Message
from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.rendering import render
from services.tokenizer.special_tokens import SpecialTokens, choose_mark
from stagemesh.models.chat_template import compile_template
from stagemesh.models.tokenizer_file import TokenizerFile
from stagemesh.runtime.errors import InvalidRequest

FRAGMENTS = (
    *("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<repo_name>", "<|im_", "end|>", "<", "|", ">"),
    *("</think>", "<think>", "x", " ", "\n", "（"),
)
messages = st.lists(st.sampled_from(FRAGMENTS), max_size=8).map("".join)

TEMPLATES = {
    "plain": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}",
    "trims": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}",
    "removes a tag": "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content.replace('</think>', '') }}<|im_end|>\n{% endfor %}",
    "keeps what follows a tag": "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content.split('</think>')[-1].lstrip('\\n') }}<|im_end|>\n{% endfor %}",
    "joins two fields": "{% for m in messages %}<|im_start|>{{ m.name }}{{ m.content }}<|im_end|>\n{% endfor %}",
}


def with_template(model: LoadedModel, template: str) -> LoadedModel:
    file: TokenizerFile = replace(model.file, chat_template=template)
    return replace(model, file=file, template=compile_template(template), special=SpecialTokens(file))


@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@settings(max_examples=80, deadline=None)
@given(contents=st.lists(messages, min_size=1, max_size=3), name=messages)
def test_the_control_tokens_are_the_templates_own(
    model: LoadedModel, template: str, contents: list[str], name: str
) -> None:
    pieces = render(with_template(model, template), [Message("user", text, name) for text in contents], 5.0)
    assert [piece.special_id for piece in pieces if piece.special_id is not None] == [1, 2] * len(contents)


@settings(max_examples=100, deadline=None)
@given(text=messages)
def test_a_message_reaches_the_model_letter_by_letter(model: LoadedModel, text: str) -> None:
    changed = with_template(model, "{{ messages[0].content }}")
    assert "".join(piece.text for piece in render(changed, [Message("user", text)], 5.0)) == text


def test_a_template_still_finds_the_tags_that_it_looks_for(model: LoadedModel) -> None:
    changed = with_template(model, "{% if '</think>' in messages[0].content %}found{% endif %}")
    [piece] = render(changed, [Message("user", "<think>a < b</think>c")], 5.0)
    assert piece.text == "found"


def test_special_tokens_swallow_white_space_where_the_vocabulary_says_so(model: LoadedModel) -> None:
    file = replace(model.file, strips={"<|im_end|>": (True, True)})
    pieces = SpecialTokens(file).split("a \n<|im_end|>\n b <|im_start|> c")
    assert [piece.text for piece in pieces] == ["a", "<|im_end|>", "b ", "<|im_start|>", " c"]


def test_a_special_token_of_one_character_is_kept_out_of_messages(model: LoadedModel) -> None:
    file = replace(model.file, special_tokens={"§": 5}, chat_template="")
    special = SpecialTokens(file)
    pieces = special.split("§" + special.guard("a§b", "\ufdd0"), "\ufdd0")
    assert [(piece.text, piece.special_id) for piece in pieces] == [("§", 5), ("a§b", None)]


def test_a_mark_is_one_that_nobody_uses() -> None:
    assert choose_mark(["\ufdd0", "a\ufdd1"]) == "\ufdd2"
    with pytest.raises(InvalidRequest, match="INVALID_TEXT"):
        choose_mark(["".join(map(chr, range(0xFDD0, 0xFDF0)))])
