"""Chat templates: Jinja in a sandbox, as `transformers` renders them, bounded in size and time."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.sandbox

from stagemesh.models.errors import UnsupportedModel
from stagemesh.runtime.errors import Exhausted, InvalidRequest, StagemeshError

MAX_RANGE_ITEMS = 100_000
"""Items of all `range` calls of one rendering together."""
MAX_REPEAT_CHARS = 1_000_000
"""Length of a repeated string or list (`"-" * 80`)."""
RENDER_FAULTS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a template's expressions raise on messages that it was not written for."""

Message = Mapping[str, Any]
"""`role` and `content`, and `name` where one is given."""


class _Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**":
            raise jinja2.TemplateRuntimeError("powers are not available in chat templates")
        for value, times in ((left, right), (right, left)):
            if (
                isinstance(value, str | list | tuple)
                and isinstance(times, int)
                and len(value) * times > MAX_REPEAT_CHARS
            ):
                raise jinja2.TemplateRuntimeError(f"a repetition longer than {MAX_REPEAT_CHARS}")
        return super().call_binop(context, operator, left, right)


class ChatTemplate:
    """A compiled template. Thread-safe."""

    def __init__(self, text: str) -> None:
        environment = _Sandbox(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _refuse
        environment.globals["strftime_now"] = lambda format_: datetime.now().astimezone().strftime(format_)
        self.text = text
        self._template = environment.from_string(text)

    def render(
        self,
        messages: Sequence[Message],
        *,
        special_texts: Mapping[str, str] | None = None,
        add_generation_prompt: bool = True,
        max_chars: int = 64_000_000,
        timeout_s: float = 10.0,
    ) -> str:
        """The prompt for `messages`. `special_texts` holds `bos_token`, `eos_token` and so on.

        Raises InvalidRequest TEMPLATE_REFUSED (the template's own check), TEMPLATE_FAILED (it cannot handle the
        messages) or PROMPT_TOO_LARGE, and Exhausted TEMPLATE_TOO_SLOW; the time is checked at each piece of output.
        """
        budget = _RangeBudget()
        pieces: list[str] = []
        num_chars, end_s = 0, time.monotonic() + timeout_s
        try:
            for piece in self._template.generate(
                messages=messages,
                add_generation_prompt=add_generation_prompt,
                tools=None,
                documents=None,
                range=budget.range,
                **(special_texts or {}),
            ):
                pieces.append(piece)
                num_chars += len(piece)
                if num_chars > max_chars:
                    raise InvalidRequest("PROMPT_TOO_LARGE", f"the rendered prompt exceeds {max_chars} characters")
                if time.monotonic() > end_s:
                    raise Exhausted("TEMPLATE_TOO_SLOW", f"the chat template needed more than {timeout_s} s")
        except (jinja2.TemplateError, *RENDER_FAULTS) as error:
            raise InvalidRequest(
                "TEMPLATE_FAILED", f"the model's chat template cannot render these messages: {error}", field="messages"
            ) from None
        return "".join(pieces)


def compile_template(text: str) -> ChatTemplate:
    """Raises UnsupportedModel when the text is no template."""
    try:
        return ChatTemplate(text)
    except jinja2.TemplateError as error:
        raise UnsupportedModel(f"the model's chat template cannot be compiled: {error}") from None


class _RangeBudget:
    """`range` with a bound over all its uses in one rendering."""

    def __init__(self) -> None:
        self._items_left = MAX_RANGE_ITEMS

    def range(self, *arguments: int) -> range:
        items = range(*arguments)
        self._items_left -= len(items)
        if self._items_left < 0:
            raise jinja2.TemplateRuntimeError(f"more than {MAX_RANGE_ITEMS} items in ranges")
        return items


def _refuse(message: str) -> NoReturn:
    error: StagemeshError = InvalidRequest(
        "TEMPLATE_REFUSED", f"the model's chat template: {message}", field="messages"
    )
    raise error


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    """JSON without the HTML escapes of Jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)
