"""The state of one sequence's grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from llguidance import LLMatcher

from services.engine.forced_tokens import ForcedTokens
from services.engine.kernels.native.token_mask import TokenMask
from services.engine.wrap_up import WrapUp
from stagemesh.runtime.errors import InvalidRequest

Bits = npt.NDArray[np.uint8]
"""A mask over the vocabulary: token t in bit t % 8 of byte t // 8."""


def invalid_constraint(message: str, field: str = "constraint") -> InvalidRequest:
    return InvalidRequest("INVALID_CONSTRAINT", message, field=field)


@dataclass(frozen=True)
class _Ahead:
    """What will be known once `token` has been taken."""

    token: int
    forced: list[int]
    bits: Bits | None


class GrammarConstraint:
    """Not thread-safe; `prepare` may run in another thread while nobody else touches it."""

    def __init__(self, matcher: LLMatcher, num_bytes: int, finds: ForcedTokens, wrap_up: WrapUp | None) -> None:
        """`num_bytes`: of a mask; `finds`: what is forced. With `wrap_up`, the answer is brought to its end before its
        tokens run out."""
        self._num_bytes, self._finds = num_bytes, finds
        self._last_token: int | None = None
        self._takes_last = wrap_up is not None and wrap_up.is_roomy()
        """Whether the last ones of forced tokens are taken as well."""
        self._matcher = matcher
        self._wrap_up = wrap_up
        self._forced: list[int] | None = None
        """What is left of the last run of forced tokens; None: not looked for since."""
        self._bits: Bits | None = None
        """Of the present state, where the model has a choice."""
        self._ahead: list[_Ahead] = []

    def prepare(self, guesses: Sequence[int] = (), masks: Sequence[TokenMask] = ()) -> None:
        """Work out what will be asked of this state, and of those after guesses at the next tokens.

        The masks, of this state and of those after each guess, are told as soon as they are known. What fails here
        fails again when it is asked.
        """
        if forced := self.forced():
            for mask, token in zip(masks, forced, strict=False):
                mask.tell(self._single(token))
            return
        if self._bits is None:
            self._bits = self._compute_bits()
        if masks:
            masks[0].tell(self._bits)
        if self._wrap_up is not None:
            self._wrap_up.look(self._matcher)
        self._ahead = self._look_ahead(guesses, masks[1:]) if guesses else []

    def is_within(self, bits: Bits) -> bool:
        """Whether `bits` has all tokens that may come next, or only one may, which needs no comparing."""
        if self._bits is bits or self.forced() or (self._wrap_up is not None and self._wrap_up.only is not None):
            return True
        if self._bits is None:
            self._bits = self._compute_bits()
        return not (self._bits & ~bits).any()

    def allowed(self) -> npt.NDArray[np.bool_]:
        """[V] of the tokenizer, padded to whole bytes. Raises as `allowed_bits`."""
        return np.unpackbits(self.allowed_bits(), bitorder="little").view(np.bool_)

    def allowed_bits(self) -> Bits:
        """The same as bits. Raises InvalidRequest when the grammar exceeds its limits here."""
        if forced := self.forced():
            return self._single(forced[0])
        if self._wrap_up is not None and self._wrap_up.only is not None:
            return self._single(self._wrap_up.only)
        if self._bits is None:
            self._bits = self._compute_bits()
        if self._matcher.is_error():
            raise invalid_constraint(f"the grammar is too complex to go on: {self._matcher.get_error()}")
        return self._bits

    def admits(self, token: int) -> bool:
        """Whether an allowed token leaves enough tokens to complete the answer; where not, another one is the only one
        allowed from now on."""
        return self._wrap_up is None or bool(self.forced()) or self._wrap_up.admits(token, self._matcher)

    def accept(self, token: int) -> None:
        """Raises InvalidRequest when the token does not fit."""
        forced = self.forced()
        if self._wrap_up is not None:
            self._wrap_up.took(token, self._matcher, was_choice=not forced)
        if not self._matcher.consume_token(token):
            raise invalid_constraint(f"output token {token} does not fit the constraint: {self._matcher.get_error()}")
        self._forced = forced[1:] if len(forced) > 1 and forced[0] == token else None
        self._bits, self._last_token = None, token
        took_last = self._takes_last
        self._takes_last = took_last if self._wrap_up is None else self._wrap_up.is_roomy()
        if self._ahead and self._ahead[0].token == token and self._takes_last == took_last:
            known = self._ahead.pop(0)
            self._forced, self._bits = known.forced, known.bits
        else:
            self._ahead = []

    def forced(self) -> list[int]:
        """The tokens that must come next: the bytes that must follow, in the tokenizer's own tokens.

        They are looked for where the last such run has ended, never in between, where the rest of the bytes might be
        cut otherwise: so they follow from the tokens taken, whoever took them, one by one or at once.
        """
        if self._forced is None:
            self._forced = self._finds.find(self._matcher, self._last_token, takes_last=self._takes_last)
        return self._forced

    def num_fitting(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` could come next, one after the other."""
        return int(self._matcher.validate_tokens(list(tokens)))

    def fork(self) -> GrammarConstraint:
        """The same state, to go on independently, without an eye on the tokens left."""
        fork = GrammarConstraint(self._matcher.deep_copy(), self._num_bytes, self._finds, None)
        fork._forced, fork._bits, fork._last_token = self._forced, self._bits, self._last_token
        fork._takes_last = self._takes_last
        return fork

    def is_complete(self) -> bool:
        return bool(self._matcher.is_stopped())

    def was_cut(self) -> bool:
        """Whether the answer was brought to its end because its tokens ran out."""
        return self._wrap_up is not None and self._wrap_up.was_cut()

    def _compute_bits(self) -> Bits:
        return np.frombuffer(self._matcher.compute_bitmask(), dtype=np.uint8)

    def _single(self, token: int) -> Bits:
        bits = np.zeros(self._num_bytes, dtype=np.uint8)
        bits[token // 8] = 1 << token % 8
        return bits

    def _look_ahead(self, guesses: Sequence[int], masks: Sequence[TokenMask]) -> list[_Ahead]:
        fork = self.fork()
        found: list[_Ahead] = []
        for index, token in enumerate(guesses[: self.num_fitting(guesses)]):
            fork.accept(token)
            if fork.is_complete():
                break
            forced = fork.forced()
            bits = None if forced else fork._compute_bits()
            found.append(_Ahead(token, forced, bits))
            if index < len(masks):
                masks[index].tell(self._single(forced[0]) if bits is None else bits)
        return found
