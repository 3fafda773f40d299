"""The scheduler's policies in one place: who is next, how much a step takes, and what is learnt from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Protocol

from services.engine.scheduling import deadline_check
from services.engine.scheduling.latency_feedback import LatencyFeedback
from services.engine.scheduling.length_bucket import LONG, NUM_BUCKETS, bucket_of
from services.engine.scheduling.page_watermark import PageWatermark
from services.engine.scheduling.prompt_shares import MAX_OWED_S, MIN_CHUNK, OLDEST_SHARE, Bounds, Need, share
from services.engine.scheduling.step_cost import StepCost, StepWork
from services.engine.scheduling.token_counters import TokenCounters
from services.engine.sequence import Sequence, State
from stagemesh.runtime.errors import Exhausted

MIN_PROMPT_PART = 0.5
"""Of the bound that prompts have in any case, however long those that decode take."""
RESUMED_STEPS = 4.0
"""How much longer a step may take while a sequence is computed again that another engine had begun: a caller reads its
stream already, and long steps lose less to those that decode beside it."""
MAX_SKIPS = 32
"""After being passed over this often, a sequence is the next to be admitted."""


@dataclass(frozen=True, kw_only=True)
class PolicyLimits:
    max_step_s: float = 0.0
    """What a step with prompts takes at most; 0: as long as its tokens take."""
    ttft_targets_s: tuple[float, ...] = (0.5, 1.5, 15.0, 60.0)
    """By length bucket."""
    high_watermark: float = 1.0


class Chunk(Protocol):
    """What a step computed of one sequence."""

    @property
    def sequence(self) -> Sequence: ...
    @property
    def start(self) -> int: ...
    @property
    def num_tokens(self) -> int: ...
    @property
    def is_prompt(self) -> bool: ...


class Policy:
    """Not thread-safe: used by the step loop alone."""

    def __init__(
        self, limits: PolicyLimits, watermark: PageWatermark, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.limits, self.watermark, self._clock = limits, watermark, clock
        self.cost = StepCost()
        self.counters = TokenCounters()
        self.feedback = tuple(LatencyFeedback() for _ in range(NUM_BUCKETS))
        self._owed_s = 0.0
        """What the oldest prompt is behind its share."""
        self._oldest = ""

    def now_s(self) -> float:
        return self._clock()

    # --- who is next

    def arrived(self, sequence: Sequence, num_cached: int) -> None:
        """`num_cached` of its tokens need no computing, as it seems now."""
        sequence.num_expected = len(sequence.tokens) - num_cached
        self.counters.arrived(sequence.owner.tenant_id)

    def left(self, sequence: Sequence) -> None:
        self.counters.left(sequence.owner.tenant_id)

    def admission_order(self, waiting: Iterable[Sequence]) -> list[Sequence]:
        """Those that ran before or were passed over often come first; then tenants that had less, and short ones."""
        limit = self.counters.limit()
        return sorted(waiting, key=lambda sequence: self._admission_key(sequence, limit))

    def bucket(self, sequence: Sequence) -> int:
        """Of one that waits."""
        return bucket_of(min(sequence.num_uncomputed, sequence.num_expected))

    def _admission_key(self, sequence: Sequence, limit: float) -> tuple[bool, bool, int, float]:
        if sequence.admitted_s is not None or sequence.num_skips >= MAX_SKIPS:
            return (False, False, 0, 0.0)
        served = self.counters.counter(sequence.owner.tenant_id)
        return (True, served > limit, self.bucket(sequence), served)

    def _urgency(self, sequence: Sequence, limit: float) -> tuple[bool, int, float, int]:
        served = self.counters.counter(sequence.owner.tenant_id)
        left = sequence.num_uncomputed
        return (served > limit, bucket_of(left), served, left)

    # --- how much a step takes

    def shares(self, prompts: Seq[Sequence], num_decoding: int, max_tokens: int) -> list[tuple[Sequence, int]]:
        """Tokens of the step for each of `prompts`, which stand in order of admission; those with none are left out."""
        if not prompts:
            return []
        limit = self.counters.limit()
        order = sorted(prompts, key=lambda sequence: self._urgency(sequence, limit)) if len(prompts) > 1 else prompts
        if prompts[0].sequence_id != self._oldest:
            self._oldest = prompts[0].sequence_id
            self._owed_s = min(self._owed_s, MAX_OWED_S)
        taking_part = self._within_batches(order, prompts[0])
        needs = [Need(s.num_uncomputed, s.num_computed, is_oldest=s is prompts[0]) for s in taking_part]
        is_alone = len(prompts) == 1 and not num_decoding
        bounds = Bounds(max_tokens, self._prompt_s(taking_part, num_decoding), is_alone)
        shares = share(needs, bounds, self.cost, self._owed_s)
        return [(sequence, tokens) for sequence, tokens in zip(taking_part, shares, strict=True) if tokens]

    def left_over(self, shares: Seq[tuple[Sequence, int]], num_decoding: int, max_tokens: int) -> int:
        """Tokens that the step can take besides `shares`, of sequences that nobody waits for."""
        left = max_tokens - sum(tokens for _, tokens in shares)
        seconds = self._prompt_s([sequence for sequence, _ in shares], num_decoding)
        if seconds == float("inf"):
            return left
        seconds -= sum(self.cost.prompt_s(tokens, sequence.num_computed) for sequence, tokens in shares)
        return min(left, max(0 if shares else MIN_CHUNK, self.cost.tokens_within(seconds, 0)))

    def _prompt_s(self, prompts: Seq[Sequence], num_decoding: int) -> float:
        bound_s = self.limits.max_step_s
        if not bound_s:
            return float("inf")
        now_s = self._clock()
        longest = max((bucket_of(sequence.num_uncomputed) for sequence in prompts), default=0)
        for feedback in self.feedback:
            feedback.look(now_s)
        bound_s *= min((feedback.factor for feedback in self.feedback[:longest]), default=1.0)
        if any(sequence.num_delivered for sequence in prompts):
            bound_s *= RESUMED_STEPS
        return max(bound_s - self.cost.decode_s(num_decoding), MIN_PROMPT_PART * bound_s)

    def _within_batches(self, order: Seq[Sequence], oldest: Sequence) -> list[Sequence]:
        """Without those that are too many for a bucket whose first tokens come late: fewer at once are done sooner.

        The oldest stays in any case, or nothing that it is owed would ever reach it.
        """
        if all(feedback.factor == 1.0 for feedback in self.feedback):
            return list(order)
        left = [max(1, int(feedback.factor * len(order))) for feedback in self.feedback]
        kept = []
        for sequence in order:
            bucket = bucket_of(sequence.num_uncomputed)
            left[bucket] -= 1
            if left[bucket] >= 0 or sequence is oldest:
                kept.append(sequence)
        return kept

    # --- what is learnt

    def measured(self, seconds: float, chunks: Iterable[Chunk], *, is_usual: bool = True) -> None:
        """A step with `chunks` took so long; an unusual one is service, and tells nothing of costs."""
        num_decoding = num_tokens = of_oldest = 0
        depths = 0.0
        for chunk in chunks:
            count, tenant_id = chunk.num_tokens, chunk.sequence.owner.tenant_id
            if not chunk.is_prompt:
                num_decoding += 1
                self.counters.served(tenant_id, output_tokens=count)
                continue
            num_tokens += count
            depths += count * (chunk.start + count / 2)
            of_oldest += count if chunk.sequence.sequence_id == self._oldest else 0
            self.counters.served(tenant_id, prompt_tokens=count)
        if num_tokens:
            prompt_s = seconds - min(self.cost.decode_s(num_decoding), seconds / 2)
            owed_s = self._owed_s + prompt_s * (OLDEST_SHARE - of_oldest / num_tokens)
            self._owed_s = min(MAX_OWED_S, max(0.0, owed_s))
        if is_usual:
            self.cost.measured(seconds, StepWork(num_decoding, num_tokens, depths))

    def first_token(self, sequence: Sequence, now_s: float) -> None:
        """The sequence's first token has been chosen."""
        bucket = bucket_of(sequence.num_expected)
        self.feedback[bucket].took(now_s, now_s - sequence.arrived_s, self._target_s(sequence, bucket))

    def _target_s(self, sequence: Sequence, bucket: int) -> float:
        """The request's own target; for long prompts no less than the bucket's, since a route may hold all lengths."""
        of_bucket = self.limits.ttft_targets_s[bucket]
        if not sequence.ttft_target_s:
            return of_bucket
        return max(sequence.ttft_target_s, of_bucket) if bucket >= LONG else sequence.ttft_target_s

    # --- deadlines

    def refusal(self, sequence: Sequence, others: Iterable[Sequence], now_s: float, place_s: float) -> Exhausted | None:
        """Why a sequence that has just come is not begun: its first token would come after its deadline.

        `others`: those that run and wait; `place_s`: how long it waits for a place.
        """
        if not self._is_to_be_checked(sequence):
            return None
        needs = ((s.num_uncomputed, s.num_computed) for s in others if s is not sequence and s.num_uncomputed > 1)
        ahead_s = deadline_check.seconds_ahead(sequence.num_expected, needs, self.cost)
        return deadline_check.refusal(sequence.deadline_s - now_s, place_s + ahead_s + self._own_s(sequence))

    def refusal_of_waiting(self, sequence: Sequence, now_s: float) -> Exhausted | None:
        """Why a sequence that waits is given up: its deadline would pass even if it were alone from now on."""
        if sequence.state is not State.WAITING or not self._is_to_be_checked(sequence):
            return None
        return deadline_check.refusal(sequence.deadline_s - now_s, self._own_s(sequence))

    def _is_to_be_checked(self, sequence: Sequence) -> bool:
        """One of which something was computed or delivered is brought as far as its time lasts."""
        is_new = sequence.admitted_s is None and not sequence.num_delivered and sequence.scoring is None
        return is_new and sequence.deadline_s != float("inf") and self.cost.is_known

    def _own_s(self, sequence: Sequence) -> float:
        """What the sequence's prompt takes with nothing beside it."""
        return self.cost.least_prompt_s(sequence.num_expected, len(sequence.tokens) - sequence.num_expected)
