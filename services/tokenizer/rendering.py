"""A conversation → the pieces of its prompt, by the model's own template."""

from __future__ import annotations

from collections.abc import Sequence

from services.tokenizer.conversation import Message
from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.special_tokens import Piece, choose_mark
from stagemesh.runtime.errors import InvalidRequest

MAX_GROWTH_CHARS = 1_000_000
"""What a template may add to the messages."""


def render(model: LoadedModel, messages: Sequence[Message], timeout_s: float) -> list[Piece]:
    """Raises InvalidRequest NO_CHAT_TEMPLATE, and what `ChatTemplate.render` raises."""
    if model.template is None:
        raise InvalidRequest(
            "NO_CHAT_TEMPLATE", f"the model {model.name} has no chat template; send a prompt instead", field="messages"
        )
    texts = [text for message in messages for text in (message.content, message.name)]
    mark = choose_mark([*texts, model.template.text])
    guarded = [_for_template(message, model, mark) for message in messages]
    # Marks and repetitions by the template may at most triple the text.
    max_chars = 3 * sum(map(len, texts)) + MAX_GROWTH_CHARS
    prompt = model.template.render(
        guarded, special_texts=model.file.template_tokens, max_chars=max_chars, timeout_s=timeout_s
    )
    return model.special.split(prompt, mark)


def _for_template(message: Message, model: LoadedModel, mark: str) -> dict[str, str]:
    values = {"role": message.role, "content": model.special.guard(message.content, mark)}
    return values | ({"name": model.special.guard(message.name, mark)} if message.name else {})
