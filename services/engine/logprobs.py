"""Log-probabilities of the unmodified distribution, as reported to the caller."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class TokenLogprobs:
    """One output position."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]
    """The most likely tokens, best first."""


def token_logprobs(logits: npt.NDArray[np.float32], token: int, num_top: int) -> TokenLogprobs:
    """Log-softmax of `logits` [V] at `token` and at the `num_top` most likely tokens (ties: lower ID first)."""
    values = logits.astype(np.float64)
    peak = values.max()
    normalizer = peak + np.log(np.exp(values - peak).sum())
    top: tuple[tuple[int, float], ...] = ()
    if num_top:
        candidates = np.flatnonzero(values >= np.partition(values, -num_top)[-num_top])
        best = candidates[np.lexsort((candidates, -values[candidates]))][:num_top]
        top = tuple((int(index), float(values[index] - normalizer)) for index in best)
    return TokenLogprobs(token, float(values[token] - normalizer), top)
