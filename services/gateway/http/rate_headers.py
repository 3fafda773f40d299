"""The headers that tell a caller of its limit, as OpenAI's clients know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.types import Message, Scope

from services.gateway.rates.rate import RateState

KEY = "stagemesh.rate_state"
"""Member of the scope: a function that gives the state of the caller's limit, once the caller is known."""


def note(scope: Scope, state: Callable[[], RateState]) -> None:
    """From here on the reply to this request says how much its caller may still send."""
    scope[KEY] = state


def add_to(scope: Scope, message: Message) -> None:
    """Add the headers to the start of a reply, where the caller is known."""
    state: Callable[[], RateState] | None = scope.get(KEY)
    if state is not None:
        headers = [(name.encode(), value.encode()) for name, value in rate_headers(state()).items()]
        message["headers"] = [*message.get("headers", ()), *headers]


def rate_headers(state: RateState) -> Mapping[str, str]:
    return {
        "x-ratelimit-limit-requests": str(state.limit),
        "x-ratelimit-remaining-requests": str(state.remaining),
        "x-ratelimit-reset-requests": f"{state.reset_s:.3f}s",
    }
