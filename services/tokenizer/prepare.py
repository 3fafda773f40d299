"""Messages or a prompt → the token IDs that the engine gets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from services.tokenizer.config import TokenizerConfig
from services.tokenizer.conversation import Message, turn_starts, without_oldest
from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.rendering import render
from services.tokenizer.splice import splice
from stagemesh.runtime.errors import InvalidRequest


@dataclass(frozen=True, kw_only=True)
class Prepared:
    token_ids: list[int]
    session_tokens: int = 0
    """Leading tokens taken from the stored ones."""
    cut_messages: int = 0
    template_us: int = 0
    encode_us: int = 0


class TooLong(Exception):
    """More tokens than allowed; `num_tokens` is exact or, for very long texts, a lower bound."""

    def __init__(self, num_tokens: int, *, exact: bool) -> None:
        super().__init__(num_tokens)
        self.num_tokens = num_tokens
        self.exact = exact


def prepare_prompt(model: LoadedModel, prompt: str, max_tokens: int) -> Prepared:
    """A raw prompt; its author may write special tokens. Raises InvalidRequest EMPTY_PROMPT or PROMPT_TOO_LONG."""
    started = time.perf_counter()
    try:
        _require_possible(len(prompt), model, max_tokens)
        token_ids = model.encode_raw(prompt, add_bos=True)
        _require_fit(token_ids, max_tokens)
    except TooLong as error:
        raise prompt_too_long(error, max_tokens, field="prompt") from None
    if not token_ids:
        raise InvalidRequest("EMPTY_PROMPT", "the prompt has no tokens; send some text", field="prompt")
    return Prepared(token_ids=token_ids, encode_us=_us_since(started))


def prepare_chat(
    model: LoadedModel,
    messages: Sequence[Message],
    stored_ids: Sequence[int],
    *,
    max_tokens: int,
    keep_recent: bool,
    config: TokenizerConfig,
) -> Prepared:
    """The prompt of a conversation, spliced onto its stored tokens where they fit.

    What exceeds `max_tokens` is refused with PROMPT_TOO_LONG or, with `keep_recent`, loses its oldest turns; system
    messages and the last turn stay.
    """
    attempt = _Attempt(model, stored_ids, max_tokens, config)
    starts = turn_starts(messages) if keep_recent else [0]
    try:
        return attempt(messages, 0)
    except TooLong as error:
        first_error = error
    # The fewest cuts that fit, by bisection: each attempt costs one rendering and one encoding.
    low, high, best = 1, len(starts) - 1, None
    while low <= high:
        middle = (low + high) // 2
        try:
            best = attempt(without_oldest(messages, starts[middle]), starts[middle])
            high = middle - 1
        except TooLong as error:
            first_error, low = error, middle + 1
    if best is None:
        raise prompt_too_long(first_error, max_tokens, field="messages", keep_recent=keep_recent)
    return best


class _Attempt:
    """Renders and encodes, and adds up the time of all attempts."""

    def __init__(self, model: LoadedModel, stored_ids: Sequence[int], max_tokens: int, config: TokenizerConfig) -> None:
        self._model, self._stored_ids, self._max_tokens = model, stored_ids, max_tokens
        self._config = config
        self._template_us = self._encode_us = 0

    def __call__(self, messages: Sequence[Message], num_cut: int) -> Prepared:
        _require_possible(sum(len(message.content) for message in messages), self._model, self._max_tokens)
        started = time.perf_counter()
        pieces = render(self._model, messages, self._config.template_timeout_s)
        self._template_us += _us_since(started)
        started = time.perf_counter()
        token_ids, session_tokens = splice(self._model, pieces, self._stored_ids)
        self._encode_us += _us_since(started)
        _require_fit(token_ids, self._max_tokens)
        return Prepared(
            token_ids=token_ids,
            session_tokens=session_tokens,
            cut_messages=num_cut,
            template_us=self._template_us,
            encode_us=self._encode_us,
        )


def prompt_too_long(error: TooLong, max_tokens: int, *, field: str, keep_recent: bool = False) -> InvalidRequest:
    """The refusal, with both counts."""
    count = f"{error.num_tokens}" if error.exact else f"at least {error.num_tokens}"
    what = "even the system messages and the last turn have" if keep_recent else "the prompt has"
    return InvalidRequest(
        "PROMPT_TOO_LONG", f"{what} {count} tokens, but {max_tokens} are allowed; send less", field=field
    )


def _require_possible(num_chars: int, model: LoadedModel, max_tokens: int) -> None:
    """Spare all work on what cannot fit: no token stands for more than max_token_bytes characters."""
    if num_chars > max_tokens * model.max_token_bytes:
        raise TooLong(num_chars // model.max_token_bytes, exact=False)


def _require_fit(token_ids: Sequence[int], max_tokens: int) -> None:
    if len(token_ids) > max_tokens:
        raise TooLong(len(token_ids), exact=True)


def _us_since(started: float) -> int:
    return int((time.perf_counter() - started) * 1e6)
