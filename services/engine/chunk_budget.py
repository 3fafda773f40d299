"""How many prompt tokens a step computes, and how they are shared among prompts."""

from __future__ import annotations

from collections.abc import Sequence

MIN_CHUNK = 16
SMOOTHING = 0.3


def share_budget(num_uncomputed: Sequence[int], budget: int) -> list[int]:
    """Divide `budget` tokens among prompts given in order of arrival, by what each still needs.

    The shortest go first, so that a short request does not wait for a long one; the oldest has a quarter in any case,
    so that a long one is not starved by a stream of short ones.
    """
    shares = [0] * len(num_uncomputed)
    if not shares:
        return shares
    shares[0] = min(num_uncomputed[0], max(1, budget // 4))
    left = budget - shares[0]
    for index in sorted(range(len(shares)), key=lambda i: (num_uncomputed[i], i)):
        taken = min(num_uncomputed[index] - shares[index], left)
        shares[index] += taken
        left -= taken
    return shares


class ChunkBudget:
    """Keeps steps with decoding sequences near `max_step_ms`, by the measured cost of a prompt token."""

    def __init__(self, *, chunk_size: int, max_step_ms: float) -> None:
        self._chunk_size = chunk_size
        self._max_step_s = max_step_ms / 1000
        self._token_s = 0.0
        self._decode_s = 0.0

    def tokens(self, num_decoding: int) -> int:
        """The budget of the next step."""
        if not num_decoding or not self._max_step_s or not self._token_s:
            return self._chunk_size
        affordable = int((self._max_step_s - self._decode_s) / self._token_s)
        return max(MIN_CHUNK, min(self._chunk_size, affordable))

    @property
    def token_s(self) -> float:
        """What computing a prompt token takes; 0 before that was measured."""
        return self._token_s

    def measured(self, seconds: float, *, num_prompt_tokens: int, num_decoding: int) -> None:
        """Learn from a finished step."""
        if not num_prompt_tokens:
            self._decode_s = _blend(self._decode_s, seconds)
        elif num_prompt_tokens >= MIN_CHUNK:
            decode_s = min(self._decode_s, seconds / 2) if num_decoding else 0.0
            self._token_s = _blend(self._token_s, (seconds - decode_s) / num_prompt_tokens)


def _blend(old: float, new: float) -> float:
    return new if not old else old + SMOOTHING * (new - old)
