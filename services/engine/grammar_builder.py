"""Builds the automaton of a constraint. Imports nothing of gRPC: it runs in the trial process, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import llguidance
from llguidance import LLMatcher, LLTokenizer

from services.engine.grammar_source import grammar_of, invalid, json_grammar, read_schema
from services.engine.schema_fault import path_of_fault
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.grammar import explanation
from stagemesh.validation.pointer import Path


@dataclass(frozen=True, kw_only=True)
class GrammarLimits:
    max_lexer_states: int
    max_grammar_symbols: int


class GrammarBuilder:
    def __init__(
        self, tokenizer_json: str, vocab_size: int, eos_token_ids: Sequence[int], limits: GrammarLimits
    ) -> None:
        """`tokenizer_json`: the file's path or its text. Takes 0.1 to 0.5 s."""
        self.tokenizer = LLTokenizer(tokenizer_json, n_vocab=vocab_size, eos_token=list(eos_token_ids) or None)
        self._limits = llguidance.LLParserLimits(
            max_lexer_states=limits.max_lexer_states, max_grammar_size=limits.max_grammar_symbols, verbose_errors=False
        )

    @property
    def num_mask_bytes(self) -> int:
        return (int(self.tokenizer.vocab_size) + 31) // 32 * 4

    def build(self, constraint: Constraint) -> LLMatcher:
        """Ready for its first token: what explodes does so here. Raises Refusal with the place."""
        matcher = self.matcher(grammar_of(constraint))
        if matcher.is_error():
            path = self._path_of_fault(constraint) if constraint.kind is Kind.JSON_SCHEMA else ()
            raise invalid(f"the grammar cannot be used: {explanation(matcher.get_error())}", constraint.kind, path)
        return matcher

    def matcher(self, grammar: str) -> LLMatcher:
        """Perhaps in its error state."""
        matcher = LLMatcher(self.tokenizer, grammar, log_level=0, limits=self._limits)
        if not matcher.is_error() and not matcher.compute_ff_tokens():
            matcher.compute_bitmask()
        return matcher

    def _path_of_fault(self, constraint: Constraint) -> Path:
        return path_of_fault(read_schema(constraint.source), lambda part: self.matcher(json_grammar(part)).is_error())
