"""Chat templates: as transformers renders them, and bounded."""

from __future__ import annotations

from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from stagemesh.models.chat_template import compile_template
from stagemesh.models.errors import UnsupportedModel
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import Exhausted, InvalidRequest

MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Héllo （你好） <b>"},
    {"role": "assistant", "content": " x \n"},
    {"role": "user", "content": ""},
]

TEMPLATES = [
    "{% for m in messages %}\n  {% if m.role == 'user' %}\nU: {{ m.content | trim }}\n  {% endif %}\n{% endfor %}",
    "{{ bos_token }}{{ messages | tojson }}{{ messages[0] | tojson(indent=2) }}",
    "{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m['content'] }}{% endfor %}",
    "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
    "{% if tools %}t{% endif %}{% if add_generation_prompt %}go{% endif %}{{ '-' * 3 }}{% for i in range(3) %}{{ i }}"
    "{% endfor %}",
    "{{ strftime_now('%Y') }}{% if missing is defined %}x{% endif %}{{ missing }}",
]


@pytest.fixture(scope="module")
def file(default_model_files: ModelFiles) -> TokenizerFile:
    return load_tokenizer(default_model_files)


@pytest.mark.parametrize("template", [None, *TEMPLATES])
def test_templates_render_as_in_transformers(file: TokenizerFile, template: str | None) -> None:
    text = template or file.chat_template
    reference = PreTrainedTokenizerFast(tokenizer_object=file.build(), chat_template=text, bos_token="<|im_start|>")
    for messages in (MESSAGES, MESSAGES[1:], MESSAGES[1:2]):
        expected = reference.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert compile_template(text).render(messages, special_texts={"bos_token": "<|im_start|>"}) == expected


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ raise_exception('roles must alternate') }}", "TEMPLATE_REFUSED"),
        ("{{ messages[0].content + 1 }}", "TEMPLATE_FAILED"),
        ("{{ messages[99].content }}", "TEMPLATE_FAILED"),
        ("{{ 1 / 0 }}", "TEMPLATE_FAILED"),
        ("{{ messages.append(1) }}", "TEMPLATE_FAILED"),
        ("{{ ''.__class__.__mro__ }}", "TEMPLATE_FAILED"),
        ("{{ 'a' * 100000000 }}", "TEMPLATE_FAILED"),
        ("{{ 9 ** 9 ** 9 }}", "TEMPLATE_FAILED"),
        ("{% for i in range(1000000000) %}x{% endfor %}", "TEMPLATE_FAILED"),
        ("{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}", "TEMPLATE_FAILED"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "TEMPLATE_FAILED"),
        ("{% for i in range(9999) %}" + "x" * 1_000 + "{{ i }}{% endfor %}", "PROMPT_TOO_LARGE"),
    ],
)
def test_a_template_that_fails_or_runs_away_is_a_typed_error(template: str, reason: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        compile_template(template).render(MESSAGES, max_chars=1_000_000)
    assert caught.value.reason == reason


def test_a_slow_template_is_given_up() -> None:
    with pytest.raises(Exhausted, match="TEMPLATE_TOO_SLOW"):
        compile_template("{% for i in range(99) %}{{ i }}{% endfor %}").render(MESSAGES, timeout_s=0.0)


def test_a_text_that_is_no_template_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="cannot be compiled"):
        compile_template("{% for %}")
