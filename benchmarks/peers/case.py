"""What is measured: requests with fixed token counts, and which of their tokens a second count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Case:
    """`num_requests` that arrive together, each with its own prompt and an answer of exactly `num_output` tokens."""

    name: str
    num_requests: int
    num_prompt: int
    num_output: int
    counts: Literal["decode", "prefill", "output"]
    """`decode`: tokens after the first over the time after it. `prefill`: prompt tokens over the time to the first
    token. `output`: all output tokens over the whole time, prompts included."""
    rivals: tuple[str, ...] = ()
    """Families of peers, of which the first that runs here runs it; empty for all peers."""

    def as_message(self) -> dict[str, object]:
        """What a worker is told."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """One run of a case."""

    tokens: int
    seconds: float
    peak_rss_mb: float
    """Of the whole process so far, weights included."""

    @property
    def tok_s(self) -> float:
        return self.tokens / self.seconds


CASES: Sequence[Case] = (
    Case(name="decode", num_requests=1, num_prompt=128, num_output=128, counts="decode"),
    Case(name="prefill_512", num_requests=1, num_prompt=512, num_output=1, counts="prefill"),
    Case(name="prefill_2048", num_requests=1, num_prompt=2048, num_output=1, counts="prefill"),
    Case(name="batch16", num_requests=16, num_prompt=128, num_output=128, counts="output"),
    Case(
        name="batch64",
        num_requests=64,
        num_prompt=128,
        num_output=128,
        counts="output",
        rivals=("vllm", "openvino", "llama_cpp"),  # minutes a run: one peer that batches continuously is enough
    ),
)
QUICK_CASES: Sequence[Case] = (
    Case(name="decode", num_requests=1, num_prompt=32, num_output=16, counts="decode"),
    Case(name="prefill_512", num_requests=1, num_prompt=128, num_output=1, counts="prefill"),
    Case(name="prefill_2048", num_requests=1, num_prompt=256, num_output=1, counts="prefill"),
    Case(name="batch16", num_requests=4, num_prompt=32, num_output=8, counts="output"),
    Case(name="batch64", num_requests=8, num_prompt=32, num_output=8, counts="output"),
)
"""The same path with a few tokens: shows that everything runs; its figures mean nothing."""
