"""Regexes and Lark grammars by llguidance, the library by which the engine enforces them: one dialect, linear time.

Its regexes have neither look-around nor back-references, so no text makes them explode; its parser has limits of its
own.
"""

from __future__ import annotations

from functools import cache

from llguidance import LLMatcher, LLTokenizer

from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import TOO_LARGE, Refusal


def compile_regex(pattern: str, limits: Limits) -> LLMatcher:
    """Raises Refusal INVALID_REGEX."""
    return _compile(LLMatcher.grammar_from_regex(pattern), pattern, "INVALID_REGEX", "constraint.regex", limits)


def compile_grammar(grammar: str, limits: Limits) -> LLMatcher:
    """Raises Refusal INVALID_GRAMMAR."""
    return _compile(LLMatcher.grammar_from_lark(grammar), grammar, "INVALID_GRAMMAR", "constraint.grammar", limits)


def mismatch(matcher: LLMatcher, text: str) -> str | None:
    """Where a text leaves the language of the matcher, as the end of a sentence; None if it is in it."""
    state = matcher.deep_copy()
    data = text.encode()
    num_matched = state.try_consume_tokens(list(data))
    if num_matched == len(data):
        return None if state.is_accepting() else "ends too early"
    if state.is_error():
        return f"cannot be matched: {_first_line(state.get_error())}"
    before = data[:num_matched].decode(errors="ignore")
    return f"does not match from character {len(before) + 1} on: {text[len(before) : len(before) + 40]!r}"


@cache
def _bytes_as_tokens() -> LLTokenizer:
    return LLTokenizer("byte")


def _compile(grammar: str, source: str, reason: str, field: str, limits: Limits) -> LLMatcher:
    if not source:
        raise Refusal(reason, "it is empty", field=field)
    if len(source.encode()) > limits.max_constraint_bytes:
        message = f"it has {len(source.encode())} bytes; {limits.max_constraint_bytes} are allowed"
        raise Refusal(TOO_LARGE, message, field=field)
    matcher = LLMatcher(_bytes_as_tokens(), grammar, log_level=0)
    if not matcher.is_error():
        matcher.compute_bitmask()  # builds the lexer, so that what explodes does so here
    if matcher.is_error():
        raise Refusal(reason, f"it cannot be used: {explanation(matcher.get_error())}", field=field)
    return matcher


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200]


def explanation(text: str) -> str:
    """The library's report without its frame: the reason stands in a line `error: …`, if there is one."""
    errors = [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]
    return errors[0] if errors else _first_line(text)
