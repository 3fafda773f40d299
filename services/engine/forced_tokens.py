"""What a grammar forces, as tokens.

The library gives forced bytes in the tokenizer's own tokens, but holds back the last ones, since what follows might
belong to the same token. In JSON, what follows the quote that opens a text is mostly a letter or a digit, where
tokenizers cut anyway: there the last ones are taken as well (docs/decisions/0231).
"""

from __future__ import annotations

from llguidance import LLMatcher, LLTokenizer

OPENING = (b':"', b'["', b',"', b'{"')
"""A quote after these opens a text."""
OPENERS = (b'"', b"{", b"[")


class ForcedTokens:
    def __init__(self, tokenizer: LLTokenizer) -> None:
        self._tokenizer = tokenizer
        self._openers = [list(tokenizer.tokenize_bytes(opener)) for opener in OPENERS]

    def find(self, matcher: LLMatcher, last_token: int | None, *, takes_last: bool) -> list[int]:
        """The tokens that must come next, after `last_token` of the answer if there is one; with `takes_last`, those
        that the library holds back as well, where JSON opens a text or a plain value."""
        held_back: list[int] = list(matcher.compute_ff_tokens())
        if not takes_last or matcher.is_error():
            return held_back
        forced = bytes(matcher.compute_ff_bytes())
        if not forced.endswith((*OPENING, b'":')):
            return held_back
        whole = self._tokenize(forced, last_token)
        if whole[: len(held_back)] != held_back:
            return held_back
        return whole if forced.endswith(OPENING) or self._begins_plainly(matcher, whole) else held_back

    def _begins_plainly(self, matcher: LLMatcher, forced: list[int]) -> bool:
        """Whether the value after a colon is a number or a word."""
        value = matcher.deep_copy()
        return bool(value.consume_tokens(forced)) and not any(map(value.validate_tokens, self._openers))

    def _tokenize(self, forced: bytes, last_token: int | None) -> list[int]:
        if last_token is not None:
            before = self._tokenizer.decode_bytes([last_token])
            tokens = list(self._tokenizer.tokenize_bytes(before + forced))
            if tokens[:1] == [last_token]:
                return tokens[1:]
        return list(self._tokenizer.tokenize_bytes(forced))
