"""Compiles constraints, off the step loop, and keeps the latest ones."""

from __future__ import annotations

import threading
from collections import OrderedDict

from llguidance import LLMatcher

from services.engine.config import ConstraintConfig
from services.engine.constraint import GrammarConstraint
from services.engine.end_finder import EndFinder
from services.engine.forced_tokens import ForcedTokens
from services.engine.grammar_builder import GrammarBuilder, GrammarLimits
from services.engine.wrap_up import WrapUp
from stagemesh.api.common.v1 import common_pb2
from stagemesh.models.tokenizer_file import TokenizerFile
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.validation.constraint import Constraint
from stagemesh.validation.messages import constraint_of
from stagemesh.validation.refusal import Refusal


class ConstraintCompiler:
    def __init__(self, tokenizer: TokenizerFile, vocab_size: int, config: ConstraintConfig) -> None:
        """`vocab_size`: of the model or the tokenizer, whichever is more. Building takes 0.1 to 0.5 s."""
        self._config = config
        self._builder = GrammarBuilder(
            tokenizer.json,
            vocab_size,
            tokenizer.eos_token_ids,
            GrammarLimits(max_lexer_states=config.max_lexer_states, max_grammar_symbols=config.max_grammar_symbols),
        )
        self._finds = ForcedTokens(self._builder.tokenizer)
        self._finder = EndFinder(tokenizer.all_token_bytes, frozenset(tokenizer.eos_token_ids))
        self._compiled: OrderedDict[Constraint, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def check_size(self, constraint: common_pb2.OutputConstraint) -> None:
        """Raises InvalidRequest when the constraint's text is too long to be looked at."""
        if constraint.ByteSize() > self._config.max_source_bytes:
            raise InvalidRequest(
                "CONSTRAINT_TOO_LARGE",
                f"it has {constraint.ByteSize()} bytes; {self._config.max_source_bytes} are allowed",
                field="constraint",
            )

    def compile(self, message: common_pb2.OutputConstraint, max_output_tokens: int) -> GrammarConstraint:
        """A fresh state of the constraint's grammar, for an answer of at most `max_output_tokens`.

        Blocks for milliseconds, in bad cases for seconds. Raises InvalidRequest.
        """
        constraint = constraint_of(message)
        try:
            matcher = self._matcher_of(constraint)
        except Refusal as refusal:
            raise InvalidRequest(refusal.reason, refusal.message, field=refusal.field) from None
        wrap_up = WrapUp(self._finder, max_output_tokens, self._finder.find(matcher)) if constraint.is_json else None
        return GrammarConstraint(matcher, self._builder.num_mask_bytes, self._finds, wrap_up)

    def _matcher_of(self, constraint: Constraint) -> LLMatcher:
        with self._lock:
            if (found := self._compiled.get(constraint)) is not None:
                self._compiled.move_to_end(constraint)
                return found.deep_copy()
        built = self._builder.build(constraint)
        with self._lock:
            self._compiled[constraint] = built
            while len(self._compiled) > self._config.max_cached_grammars:
                self._compiled.popitem(last=False)
            return built.deep_copy()
