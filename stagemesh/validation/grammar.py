"""Regexes and grammars by llguidance, the library by which the engine enforces them: one dialect, linear time.

Grammars are in Lark's form or in GBNF.

Its regexes have neither look-around nor back-references, so no text makes them explode; its parser has limits of its
own.
"""

from __future__ import annotations

from functools import cache

from llguidance import LLMatcher, LLTokenizer
from llguidance.gbnf_to_lark import any_to_lark

from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import TOO_LARGE, Refusal

NOTHING_MATCHES = "NoExtensionBias"
"""The library's name for a state from which no token leads on."""


def compile_regex(pattern: str, limits: Limits) -> LLMatcher:
    """Raises Refusal INVALID_REGEX."""
    reason, field = "INVALID_REGEX", "constraint.regex"
    _check_size(pattern, reason, field, limits)
    return _compile(LLMatcher.grammar_from_regex(pattern), reason, field)


def compile_grammar(grammar: str, limits: Limits) -> LLMatcher:
    """Raises Refusal INVALID_GRAMMAR."""
    reason, field = "INVALID_GRAMMAR", "constraint.grammar"
    _check_size(grammar, reason, field, limits)
    return _compile(LLMatcher.grammar_from_lark(lark_of(grammar)), reason, field)


def lark_of(grammar: str) -> str:
    """In Lark's form; what is written in GBNF (`root ::= …`, as llama.cpp and XGrammar take it) is translated.

    Raises Refusal INVALID_GRAMMAR.
    """
    if "::=" not in grammar:
        return grammar
    try:
        return str(any_to_lark(grammar))
    except RecursionError:
        why = "it is nested too deeply"
    except Exception as error:  # noqa: BLE001  the translator raises plain ones for whatever it cannot read
        why = _first_line(str(error) or type(error).__name__)
    raise Refusal("INVALID_GRAMMAR", f"it cannot be read as GBNF: {why}", field="constraint.grammar")


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


def _compile(grammar: str, reason: str, field: str) -> LLMatcher:
    matcher = LLMatcher(_bytes_as_tokens(), grammar, log_level=0)
    if not matcher.is_error():
        matcher.compute_bitmask()  # builds the lexer, so that what explodes does so here
    if matcher.is_error():
        raise Refusal(reason, f"it cannot be used: {explanation(matcher.get_error())}", field=field)
    return matcher


def _check_size(source: str, reason: str, field: str, limits: Limits) -> None:
    if not source:
        raise Refusal(reason, "it is empty", field=field)
    if len(source.encode()) > limits.max_constraint_bytes:
        message = f"it has {len(source.encode())} bytes; {limits.max_constraint_bytes} are allowed"
        raise Refusal(TOO_LARGE, message, field=field)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:200]


def explanation(text: str) -> str:
    """The library's report without its frame: the reason stands in a line `error: …`, if there is one."""
    if text.startswith(NOTHING_MATCHES):
        return "no text can satisfy it; look for a rule or a $ref that leads to nothing but itself"
    errors = [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]
    return errors[0] if errors else _first_line(text)
