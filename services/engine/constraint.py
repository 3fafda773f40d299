"""Grammars that the answer must match, through llguidance."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import llguidance
import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher, LLTokenizer

from services.engine.config import ConstraintConfig
from services.engine.schema_closing import close_objects
from services.engine.wrap_up import EndFinder, WrapUp
from stagemesh.api.common.v1 import common_pb2
from stagemesh.models.tokenizer_file import TokenizerFile
from stagemesh.runtime.errors import InvalidRequest

JSON_OPTIONS = {"whitespace_flexible": False, "lenient": True}
"""Compact JSON: a small model loses itself in white space. What the grammar cannot express of a schema (`not`,
`uniqueItems`, …) is left to the validator."""

MAX_NESTING = 100
"""Depth of a schema's document."""


def invalid_constraint(message: str) -> InvalidRequest:
    return InvalidRequest("INVALID_CONSTRAINT", message, field="constraint")


class GrammarConstraint:
    """The state of one sequence's grammar."""

    def __init__(self, matcher: LLMatcher, num_bytes: int, wrap_up: WrapUp | None) -> None:
        """`num_bytes`: of a mask. With `wrap_up`, the answer is brought to its end before its tokens run out."""
        self._num_bytes = num_bytes
        self._matcher = matcher
        self._wrap_up = wrap_up
        self._forced: list[int] | None = None
        """What is left of the last run of forced tokens; None: not looked for since."""

    def allowed(self) -> npt.NDArray[np.bool_]:
        """[V] of the tokenizer, padded to whole bytes. Raises as `allowed_bits`."""
        return np.unpackbits(self.allowed_bits(), bitorder="little").view(np.bool_)

    def allowed_bits(self) -> npt.NDArray[np.uint8]:
        """The same as bits, token t in bit t % 8 of byte t // 8.

        Raises InvalidRequest when the grammar exceeds its limits here.
        """
        if forced := self.forced():
            bits = np.zeros(self._num_bytes, dtype=np.uint8)
            bits[forced[0] // 8] = 1 << forced[0] % 8
            return bits
        bits = np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)
        if self._matcher.is_error():
            raise invalid_constraint(f"the grammar is too complex to go on: {self._matcher.get_error()}")
        return bits

    def accept(self, token: int) -> None:
        """Raises InvalidRequest when the token does not fit."""
        forced = self.forced()
        if not self._matcher.consume_token(token):
            raise invalid_constraint(f"output token {token} does not fit the constraint: {self._matcher.get_error()}")
        self._forced = forced[1:] if len(forced) > 1 and forced[0] == token else None
        if self._wrap_up is not None:
            self._wrap_up.took(token, self._matcher)

    def forced(self) -> list[int]:
        """The tokens that must come next: the bytes that must follow, in the tokenizer's own tokens.

        They are looked for where the last such run has ended, never in between, where the rest of the bytes might be
        cut otherwise: so they follow from the tokens taken, whoever took them, one by one or at once.
        """
        if self._wrap_up is not None and self._wrap_up.end:
            return self._wrap_up.end
        if self._forced is None:
            self._forced = list(self._matcher.compute_ff_tokens())
        return self._forced

    def num_fitting(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` could come next, one after the other."""
        return int(self._matcher.validate_tokens(list(tokens)))

    def fork(self) -> GrammarConstraint:
        """The same state, to go on independently, without an eye on the tokens left."""
        fork = GrammarConstraint(self._matcher.deep_copy(), self._num_bytes, None)
        fork._forced = self._forced
        return fork

    def is_complete(self) -> bool:
        return bool(self._matcher.is_stopped()) or self.was_cut()

    def was_cut(self) -> bool:
        """Whether the answer was brought to its end because its tokens ran out."""
        return self._wrap_up is not None and self._wrap_up.end == []


class ConstraintCompiler:
    """Compiles grammars, off the step loop, and keeps the latest ones."""

    def __init__(self, tokenizer: TokenizerFile, vocab_size: int, config: ConstraintConfig) -> None:
        """`vocab_size` is the model's; building takes 0.1 to 0.5 s."""
        self._config = config
        self._tokenizer = LLTokenizer(
            tokenizer.json,
            n_vocab=max(vocab_size, tokenizer.vocab_size),
            eos_token=list(tokenizer.eos_token_ids) or None,
        )
        self._num_bytes = (self._tokenizer.vocab_size + 31) // 32 * 4
        self._finder = EndFinder(tokenizer.all_token_bytes, frozenset(tokenizer.eos_token_ids))
        self._limits = llguidance.LLParserLimits(
            max_lexer_states=config.max_lexer_states,
            max_grammar_size=config.max_grammar_symbols,
            verbose_errors=False,
        )
        self._compiled: OrderedDict[bytes, LLMatcher] = OrderedDict()
        self._lock = threading.Lock()

    def check_size(self, constraint: common_pb2.OutputConstraint) -> None:
        """Raises InvalidRequest when the constraint's text is too long to be looked at."""
        if constraint.ByteSize() > self._config.max_source_bytes:
            raise invalid_constraint(
                f"it has {constraint.ByteSize()} bytes; {self._config.max_source_bytes} are allowed"
            )

    def compile(self, constraint: common_pb2.OutputConstraint, max_output_tokens: int) -> GrammarConstraint:
        """A fresh state of the constraint's grammar, for an answer of at most `max_output_tokens`.

        Blocks for milliseconds, in bad cases for seconds. Raises InvalidRequest.
        """
        is_json = constraint.WhichOneof("kind") in {"json_schema", "json_object"}
        wrap_up = WrapUp(self._finder, max_output_tokens) if is_json else None
        return GrammarConstraint(self._matcher_of(constraint), self._num_bytes, wrap_up)

    def _matcher_of(self, constraint: common_pb2.OutputConstraint) -> LLMatcher:
        key = constraint.SerializeToString(deterministic=True)
        with self._lock:
            if (found := self._compiled.get(key)) is not None:
                self._compiled.move_to_end(key)
                return found.deep_copy()
        built = self._build(_grammar_of(constraint))
        with self._lock:
            self._compiled[key] = built
            while len(self._compiled) > self._config.max_cached_grammars:
                self._compiled.popitem(last=False)
            return built.deep_copy()

    def _build(self, grammar: str) -> LLMatcher:
        matcher = LLMatcher(self._tokenizer, grammar, log_level=0, limits=self._limits)
        if not matcher.is_error():
            matcher.compute_bitmask()  # the lexer is built here, so a regex that explodes shows now
        if matcher.is_error():
            raise invalid_constraint(f"the grammar cannot be used: {matcher.get_error().strip()}")
        return matcher


def _grammar_of(constraint: common_pb2.OutputConstraint) -> str:
    match constraint.WhichOneof("kind"):
        case "json_schema":
            return _json_grammar(close_objects(_parse_schema(constraint.json_schema)))
        case "json_object":
            return _json_grammar({"type": "object"})
        case "regex":
            return str(LLMatcher.grammar_from_regex(constraint.regex))
        case "grammar":
            return str(LLMatcher.grammar_from_lark(constraint.grammar))
        case "choice":
            return _choice_grammar(constraint.choice.values)
    raise invalid_constraint("it is empty: give a JSON schema, json_object, a regex, a grammar or choices")


def _parse_schema(text: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise invalid_constraint(f"the schema is not JSON: {error}") from None
    if isinstance(schema, bool):
        schema = {} if schema else {"not": {}}
    if not isinstance(schema, dict):
        raise invalid_constraint("the schema must be a JSON object")
    if _depth(schema) > MAX_NESTING:
        raise invalid_constraint(f"the schema is nested deeper than {MAX_NESTING}")
    schema.pop("x-guidance", None)  # the library's own switches are not the caller's to set
    return schema


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return depth


def _json_grammar(schema: dict[str, Any]) -> str:
    try:
        return str(LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=JSON_OPTIONS))
    except ValueError as error:
        raise invalid_constraint(f"the schema cannot be used: {error}") from None


def _choice_grammar(values: Sequence[str]) -> str:
    if not values or not all(values):
        raise invalid_constraint("a choice needs values, none of them empty")
    return str(
        LLMatcher.grammar_from_lark("start: " + " | ".join(json.dumps(value) for value in dict.fromkeys(values)))
    )
