"""Bring a JSON answer to its end when its tokens run out, so that what is cut is still well formed.

A model can go on inside a string or an array until `max_tokens`. Now and then a shortest end is looked for: the tokens
that close what is open and fill in what is required. Once that end needs nearly all tokens that are left, each token
that the model chooses is taken only if the answer can still be completed after it; where not, the next token of the
known end is. The sequence then ends with LENGTH, as anything that was cut.

Everything but that mark follows from the tokens so far, so an answer that is continued elsewhere goes on the same.
"""

from __future__ import annotations

from llguidance import LLMatcher

from services.engine.end_finder import MAX_END_TOKENS, EndFinder

CLOSE_TOKENS = 48
"""With so few tokens to spare, every choice is checked. A single token that calls for more than that (the first of an
object with many required fields) may come too late to be completed."""
CHECK_FRACTION = 4
"""Before, the next look is due when this part of the spare tokens has been used."""
MARGIN_TOKENS = 2
"""An answer that others began, and that ends with so few tokens left, counts as cut."""


class WrapUp:
    """Watches one sequence's budget. All methods are about states in which the model has a choice."""

    def __init__(self, finder: EndFinder, max_output_tokens: int, shortest: list[int] | None) -> None:
        """`shortest`: an answer of few tokens, if one is known."""
        self._finder = finder
        self._roomy = max_output_tokens if shortest is None else 2 * (len(shortest) + CLOSE_TOKENS)
        self._left = max_output_tokens
        self._next_look = min(max_output_tokens, MAX_END_TOKENS + CLOSE_TOKENS)
        """Look again when so many tokens are left."""
        self._end: list[int] | None = None
        """Tokens that complete the answer from here; None: not known."""
        self._after: tuple[int, list[int] | None] | None = None
        """A token that may come next, and the end after it."""
        self._only: int | None = None
        self._has_refused = self._has_replayed = False

    @property
    def only(self) -> int | None:
        """The token that must come next, since the model's own choice would be too long."""
        return self._only

    def is_roomy(self) -> bool:
        """Whether so many tokens are left that a few more or less do not matter."""
        return self._left > self._roomy and not self._is_close

    def look(self, matcher: LLMatcher) -> None:
        """Look for an end where that is due; milliseconds."""
        if self._end is not None and self._is_close:
            return
        if self._left > self._next_look:
            return
        self._end = self._finder.find(matcher)
        spare = self._left if self._end is None else self._left - len(self._end)
        spare_before_close = spare if self._end is None else spare - CLOSE_TOKENS
        self._next_look = self._left - max(1, spare_before_close // CHECK_FRACTION)

    def admits(self, token: int, matcher: LLMatcher) -> bool:
        """Whether the answer can be completed after `token`; where not, `only` says what must come instead."""
        self.look(matcher)
        if self._end is None or not self._is_close or token == self._only:
            return True
        self._foresee(token, self._end, matcher)
        assert self._after is not None
        end = self._after[1]
        if end is not None and len(end) < self._left:
            return True
        self._only = self._end[0] if self._end else self._finder.eos
        self._has_refused = self._has_refused or self._only is not None
        return self._only is None

    def took(self, token: int, matcher: LLMatcher, *, was_choice: bool) -> None:
        """`token` is about to be consumed by `matcher`."""
        if was_choice:
            self.look(matcher)
        end = self._end
        if end is None or (end[:1] != [token] and not (was_choice and self._is_close)):
            self._end = None
        elif end[:1] == [token]:
            self._end = end[1:]
        else:
            if self._after is None or self._after[0] != token:
                self._has_replayed = True
                self._foresee(token, end, matcher)
            assert self._after is not None
            self._end = self._after[1]
        self._after = self._only = None
        self._left -= 1

    def was_cut(self) -> bool:
        """Whether the answer's end is not the model's own."""
        return self._has_refused or (self._has_replayed and self._left <= MARGIN_TOKENS)

    @property
    def _is_close(self) -> bool:
        return self._end is not None and self._left - len(self._end) <= CLOSE_TOKENS

    def _foresee(self, token: int, end: list[int], matcher: LLMatcher) -> None:
        self._after = (token, end[1:] if end[:1] == [token] else self._finder.find_after(token, end, matcher))
