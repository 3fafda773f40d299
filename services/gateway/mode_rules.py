"""Which precision mode a request gets whose caller names none: the first rule that applies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from pydantic import Field, model_validator

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.config import Section
from stagemesh.runtime.precision_mode import MODES, parse_mode

Mode: TypeAlias = "common_pb2.PrecisionMode.ValueType"
PROOF_WORDS = ("证明", "推导", "严谨", "prove", "proof", "derive", "rigorous")


class ModeRule(Section):
    """Applies where all that it names holds; it must name something."""

    mode: str
    """`turbo`, `standard` or `precise`. A mode that no engine of the model holds is passed over."""
    keywords: tuple[str, ...] = ()
    """One of these stands in the last message (or the prompt): as a word of its own, or anywhere where it is not made
    of Latin letters."""
    min_expected_tokens: int = Field(default=0, ge=0)
    """The caller asks for more than so many tokens (`max_tokens`)."""
    route: str = ""
    """The request is of this route class."""

    @model_validator(mode="after")
    def _says_something(self) -> ModeRule:
        if not (self.keywords or self.min_expected_tokens or self.route):
            raise ValueError("names no keywords, min_expected_tokens or route, so it would apply to everything")
        if self.mode not in MODES:
            raise ValueError(f"mode is {self.mode!r}, not one of {', '.join(MODES)}")
        return self


def default_rules() -> tuple[ModeRule, ...]:
    return (ModeRule(mode="precise", keywords=PROOF_WORDS), ModeRule(mode="precise", min_expected_tokens=500))


class ModesConfig(Section):
    """Precision modes by rule, and what they cost."""

    rules: tuple[ModeRule, ...] = Field(default_factory=default_rules)
    """For requests that name no mode; the first that applies counts. They matter where engines hold several modes."""
    max_precise_in_a_row: int = Field(default=3, ge=0)
    """After so many requests in a row that ask for `precise`, the next of this user of the tenant run in standard, with
    an alert, until `stagemesh tenant release` or until the window is over. 0: no limit."""
    precise_window_s: int = Field(default=600, ge=1)
    """How long requests count as in a row, and how long the limit lasts."""
    cost_per_1k: dict[str, float] = Field(default_factory=lambda: {"turbo": 0.6, "standard": 1.0, "precise": 2.5})
    """Cost units of 1,000 prompt tokens that were computed, by mode; an output token costs as much as two of these, one
    that was reused a tenth."""


def mode_by_rule(
    request: gateway_pb2.InferenceRequest, route: str, rules: Sequence[ModeRule], is_held: Callable[[Mode], bool]
) -> Mode:
    """Unspecified where no rule applies."""
    for rule in rules:
        mode = parse_mode(rule.mode)
        if _applies(rule, request, route) and is_held(mode):
            return mode
    return common_pb2.PRECISION_MODE_UNSPECIFIED


def _applies(rule: ModeRule, request: gateway_pb2.InferenceRequest, route: str) -> bool:
    if rule.route and rule.route != route:
        return False
    if rule.min_expected_tokens and request.sampling.max_tokens <= rule.min_expected_tokens:
        return False
    return not rule.keywords or any(_stands_in(word, _last_text(request)) for word in rule.keywords)


def _last_text(request: gateway_pb2.InferenceRequest) -> str:
    if request.WhichOneof("input") == "prompt":
        return request.prompt
    return request.chat.messages[-1].content if request.chat.messages else ""


def _stands_in(word: str, text: str) -> bool:
    if not word.isascii():
        return word in text
    return re.search(rf"(?<![a-z]){re.escape(word.lower())}(?![a-z])", text.lower()) is not None
