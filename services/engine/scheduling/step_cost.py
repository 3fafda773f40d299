"""What a step takes, by what is in it: decoding rows, prompt tokens, and how deep in their prompts these stand."""

from __future__ import annotations

import math
from dataclasses import dataclass

from services.engine.scheduling.decayed_fit import DecayedFit

MIN_MEASURED_TOKENS = 8
"""A chunk of fewer prompt tokens tells little of what a token costs."""
DEPTH_UNIT = 1024.0
DEPTH_PRIOR = 0.3
"""What DEPTH_UNIT of depth adds to a token, by the cost of the first one, before deep ones were measured."""
ROW_PRIOR = 0.1
"""What a further row adds to a decoding step, by the step's fixed cost."""
SMOOTHING = 0.3


@dataclass(frozen=True)
class StepWork:
    """What a step computed."""

    num_decoding: int
    num_prompt_tokens: int
    token_depths: float
    """Sum over the prompt tokens of the positions at which they stand: each attends to as many tokens."""


class StepCost:
    """Seconds by measured cost: c₀ + c₁·rows for what decodes, and n·(a + b·depth) for n prompt tokens."""

    def __init__(self) -> None:
        self._decode = DecayedFit(ROW_PRIOR)
        self._prompt = DecayedFit(DEPTH_PRIOR)
        self._deepest = 0.0
        """Mean depth of the deepest chunk that was measured."""
        self.token_s = 0.0
        """What a prompt token took lately, wherever it stood; 0 before that was measured."""

    @property
    def is_known(self) -> bool:
        """Whether prompt tokens have been measured."""
        return self._prompt.is_known

    def decode_s(self, num_decoding: int) -> float:
        return self._decode(1.0, num_decoding) if num_decoding else 0.0

    def prompt_s(self, num_tokens: int, depth: int) -> float:
        """For the next `num_tokens` of a sequence that stands at `depth`; 0 while nothing is known."""
        return self._prompt(num_tokens, num_tokens * (depth + num_tokens / 2) / DEPTH_UNIT)

    def least_prompt_s(self, num_tokens: int, depth: int) -> float:
        """As `prompt_s`, but tokens deeper than any that was measured cost no more than those."""
        mean_depth = min(depth + num_tokens / 2, self._deepest)
        return self._prompt(num_tokens, num_tokens * mean_depth / DEPTH_UNIT)

    def tokens_within(self, seconds: float, depth: int) -> int:
        """How many tokens from `depth` on fit into `seconds`."""
        if seconds <= 0 or not self.is_known:
            return 0
        linear = self._prompt.p + self._prompt.q * depth / DEPTH_UNIT
        square = self._prompt.q / 2 / DEPTH_UNIT
        if square * seconds < 1e-9 * linear * linear:
            return int(seconds / linear)
        return int((math.sqrt(linear * linear + 4 * square * seconds) - linear) / (2 * square))

    def measured(self, seconds: float, work: StepWork) -> None:
        """Learn from a finished step."""
        if not work.num_prompt_tokens:
            self._decode.measured(seconds, 1.0, work.num_decoding)
        elif work.num_prompt_tokens >= MIN_MEASURED_TOKENS:
            prompt_s = seconds - min(self.decode_s(work.num_decoding), seconds / 2)
            self._prompt.measured(prompt_s, work.num_prompt_tokens, work.token_depths / DEPTH_UNIT)
            self._deepest = max(self._deepest, work.token_depths / work.num_prompt_tokens)
            token_s = prompt_s / work.num_prompt_tokens
            self.token_s += (SMOOTHING if self.token_s else 1.0) * (token_s - self.token_s)
