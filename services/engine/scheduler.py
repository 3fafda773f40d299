"""Which sequences take part in the next step, and with how many tokens.

Every running sequence has tokens without KV: one when it decodes, more while its prompt is computed. A step takes the
one token of each that decodes, guesses at what follows it where pages are free, and prompt tokens in chunks on top, as
many as fit the bound of a step; who comes first, the policies in `scheduling/` say. A sequence is admitted when the
pages for all its tokens are there. When a decoding one finds no page, the one admitted last gives its pages back and is
computed again later: nothing is dropped.

Sequences that are scored have places of their own and take what the others leave of the budget; they give their pages
back first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

from services.engine.block_manager import PAGE_SIZE, BlockManager, num_pages_for
from services.engine.kernels.native.token_mask import TokenMask
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.stored_kv import StoredKv
from services.engine.scheduling.length_bucket import LONG, bucket_of
from services.engine.scheduling.page_watermark import PageWatermark
from services.engine.scheduling.policy import MAX_SKIPS, Policy, PolicyLimits
from services.engine.scheduling.preemption import PageSeconds, Way, cheaper_way
from services.engine.scoring import MAX_STEP_ROWS, MAX_TOGETHER
from services.engine.sequence import MAX_DECODE_ROWS, Sequence, State

COPY_S = 0.25
"""For copying the pages of a sequence that gave way; megabytes take milliseconds."""
MAX_LOOKAHEAD = 8
"""How far into the queue a sequence is looked for that fits where the first one does not."""


@dataclass(frozen=True)
class WorkItem:
    """Compute KV for tokens [start, end) of `sequence`, and for drafts at [end, row_end)."""

    sequence: Sequence
    start: int
    end: int
    samples: bool
    """Whether the step yields the sequence's next token: the item reaches the end of what there is."""
    drafts: tuple[int, ...] = ()
    """Guesses at the tokens that follow, where the item samples. They are rows of the step like any other, and one more
    row of logits each: as long as the tokens chosen are those guessed, the next row is that of the token after."""
    masks: tuple[TokenMask, ...] = ()
    """For each row of logits what its grammar allows, if it has one, told while the step runs."""

    @classmethod
    def next(cls, sequence: Sequence, num_tokens: int) -> WorkItem:
        """The sequence's next `num_tokens` tokens without KV."""
        end = sequence.num_computed + num_tokens
        samples = end == len(sequence.tokens) and sequence.scoring is None
        return cls(sequence, sequence.num_computed, end, samples=samples)

    @classmethod
    def last(cls, sequence: Sequence) -> WorkItem:
        """The sequence's last token alone."""
        return cls(sequence, len(sequence.tokens) - 1, len(sequence.tokens), samples=True)

    @property
    def num_tokens(self) -> int:
        """Without drafts."""
        return self.end - self.start

    @property
    def is_prompt(self) -> bool:
        """Whether it is a chunk of a prompt, not the last token of a sequence that decodes, with what was forced."""
        is_short = self.samples and self.start >= self.sequence.num_prompt and self.num_tokens <= MAX_DECODE_ROWS
        return self.num_tokens > 1 and not is_short

    @property
    def row_end(self) -> int:
        """The position after the item's last row."""
        return self.end + len(self.drafts)

    @property
    def num_rows(self) -> int:
        return self.row_end - self.start

    @property
    def num_sampled(self) -> int:
        """The last rows of the item, whose logits are wanted."""
        if self.samples:
            return 1 + len(self.drafts)
        scoring = self.sequence.scoring
        return 0 if scoring is None else scoring.num_rows(self.start, self.end)

    @property
    def token_ids(self) -> list[int]:
        """One for each row."""
        return [*self.sequence.tokens[self.start : self.end], *self.drafts]


class Scheduler:
    def __init__(
        self, blocks: BlockManager, *, max_running: int, stored: StoredKv | None = None, policy: Policy | None = None
    ) -> None:
        """Without a `policy`, steps are bounded in tokens alone, and the pool may be filled to the last page."""
        self._blocks = blocks
        self._max_running = max_running
        self._stored = stored
        self.policy = policy or Policy(PolicyLimits(), PageWatermark(blocks.num_pages, max_running, high=1.0))
        self.waiting: deque[Sequence] = deque()
        self.waiting_scored: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        """In order of admission."""
        self.restoring: list[Sequence] = []
        """They have pages and a place, and take part when what is stored of them has been loaded."""
        self.num_preemptions = 0
        self.num_preemptions_by_host = 0
        """Of which with pages that were to be kept in host memory."""
        self._copying_until_s = 0.0
        """Until then admission takes no pages back that wait to be copied; those that decode do."""
        self._num_scored = 0
        """Admitted sequences that are scored."""

    def __iter__(self) -> Iterator[Sequence]:
        yield from self.running
        yield from self.restoring
        yield from self.waiting
        yield from self.waiting_scored

    def waiting_in_order(self) -> Seq[Sequence]:
        """Those that wait, the next to be admitted first."""
        return self.policy.admission_order(self.waiting) if len(self.waiting) > 1 else tuple(self.waiting)

    def add(self, sequence: Sequence) -> None:
        self._queue_of(sequence).append(sequence)

    def remove(self, sequence: Sequence, *, poisoned: bool = False) -> None:
        """Take a sequence out, wherever it stands, and free its pages, as soon as nobody loads anything into them."""
        if sequence.state is State.RESTORING:
            self.restoring.remove(sequence)
            self._num_scored -= sequence.scoring is not None
            self._kv.restores.abandon(sequence)
            sequence.state = State.FINISHED
            return
        if sequence.state is State.RUNNING:
            self.running.remove(sequence)
            self._num_scored -= sequence.scoring is not None
        elif sequence.state is State.WAITING:
            self._queue_of(sequence).remove(sequence)
        sequence.state = State.FINISHED
        self._blocks.release(sequence.table, poisoned=poisoned)

    def restored(self, sequence: Sequence) -> None:
        """What could be loaded of the sequence has been."""
        self.restoring.remove(sequence)
        sequence.state = State.RUNNING
        self.running.append(sequence)

    def begin_again(self, sequence: Sequence, *, spoiled: bool) -> None:
        """A running sequence gives its pages back and is computed again from its first token; `spoiled`: on no page of
        an earlier computation."""
        self.running.remove(sequence)
        self._blocks.release(sequence.table, poisoned=spoiled)
        if spoiled:
            sequence.renew_table()
            sequence.table.is_forgotten, sequence.table.max_reused_tokens = True, 0
        self._wait_again(sequence)

    def go_on_without_pages(self) -> None:
        """Sequences that have waited too long for their pages are admitted anew, to be computed."""
        for sequence in self._kv.restores.take_overdue():
            self.restoring.remove(sequence)
            self._wait_again(sequence)

    def plan(self, max_prompt_tokens: int) -> list[WorkItem]:
        """The next step's work: decoding sequences first, then prompt chunks of `max_prompt_tokens` in all at most."""
        items = self._plan_decodes()
        self._admit()
        planned = {item.sequence.sequence_id for item in items}
        prompts = [s for s in self.running if s.scoring is None and s.sequence_id not in planned]
        shares = self.policy.shares(prompts, len(items), max_prompt_tokens)
        num_decoding = len(items)
        items += [WorkItem.next(sequence, tokens) for sequence, tokens in shares]
        if self._num_scored:
            items += self._plan_scored(self.policy.left_over(shares, num_decoding, max_prompt_tokens))
        return items

    def with_drafts(self, item: WorkItem, drafts: Seq[int]) -> WorkItem:
        """The item with as many of `drafts` as fit the sequence's length and the free pages.

        One free page per running sequence is kept back: drafts never cause a preemption.
        """
        sequence = item.sequence
        room = sequence.max_total_tokens - len(sequence.tokens) - 1  # the step yields one token more than it accepts
        free = max(0, self._blocks.num_free - len(self.running))
        in_pages = (len(sequence.table.pages) + free) * PAGE_SIZE - item.end
        kept = tuple(drafts[: max(0, min(room, in_pages))])
        if not item.samples or not kept:
            return item
        self._blocks.extend(sequence.table, item.end + len(kept))
        return replace(item, drafts=kept)

    def completed(self, item: WorkItem, num_accepted: int = 0) -> None:
        """Note that KV is there for the item's tokens and its first `num_accepted` drafts, which are tokens by now.

        Pages that only other drafts needed are given back; what they wrote elsewhere is overwritten by the real tokens.
        """
        sequence = item.sequence
        sequence.num_computed = item.end + num_accepted
        self._blocks.commit(sequence.table, sequence.tokens, sequence.num_computed)
        if item.samples:  # all its tokens are computed
            self._blocks.shrink(sequence.table, sequence.num_computed)

    def fork(self, trunk: Sequence, branch: Sequence) -> tuple[int, int] | None:
        """Have a waiting `branch` go on from the pages of `trunk`, whose tokens it begins with, if there is room.

        Gives a page and the one that it must be copied to before anything else is computed. Without room the branch
        waits, and finds what is known of those pages.
        """
        num_needed = self._blocks.num_pages_to_fork(trunk.table, len(trunk.tokens), len(branch.tokens))
        leave = self.policy.watermark.pages_to_leave(self.policy.bucket(branch), self._num_admitted)
        if self._num_scored > MAX_TOGETHER or num_needed + leave > self._blocks.num_free:
            return None
        copied = self._blocks.fork(trunk.table, branch.table, len(trunk.tokens), len(branch.tokens))
        self._queue_of(branch).remove(branch)
        self._num_scored += 1
        branch.num_computed = branch.num_cached = len(trunk.tokens)
        branch.state = State.RUNNING
        self.running.append(branch)
        return copied

    def undone(self, item: WorkItem) -> None:
        """The item yielded nothing: its sequence stands where it stood."""
        self._blocks.shrink(item.sequence.table, item.end)

    def _plan_decodes(self) -> list[WorkItem]:
        items = []
        for sequence in tuple(self.running):
            has_grown = sequence.num_computed >= sequence.num_prompt and sequence.scoring is None
            if sequence.state is State.RUNNING and has_grown and self._ensure_pages(sequence) and sequence.is_decoding:
                items.append(WorkItem.next(sequence, sequence.num_uncomputed))
        return items

    def _plan_scored(self, budget: int) -> list[WorkItem]:
        """Work of `budget` tokens on sequences that are scored, in order of admission."""
        items: list[WorkItem] = []
        rows_left = MAX_STEP_ROWS
        for sequence in self.running:
            if sequence.scoring is None or budget <= 0:
                continue
            start = sequence.num_computed
            end = sequence.scoring.fitting_end(start, min(start + budget, len(sequence.tokens)), rows_left)
            if end > start:
                items.append(WorkItem.next(sequence, end - start))
                budget -= end - start
                rows_left -= items[-1].num_sampled
        return items

    def _ensure_pages(self, sequence: Sequence) -> bool:
        """Get a page for the sequence's newest token, from the one admitted last if need be (perhaps itself)."""
        while not self._blocks.can_extend(sequence.table, len(sequence.tokens)):
            if self._reclaim():
                continue
            victim = self._victim()
            self._preempt(victim)
            if victim is sequence:
                return False
        self._blocks.extend(sequence.table, len(sequence.tokens))
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        if self._stored is not None and self._way_back(self._stored, sequence) is Way.HOST:
            self._stored.saves.keep_near(sequence)
            sequence.kv.has_tried = False  # what was copied by then is loaded, if that is still the quicker way
            self.num_preemptions_by_host += 1
            self._copying_until_s = self.policy.now_s() + COPY_S
        self._blocks.release(sequence.table)
        self._wait_again(sequence)
        self.num_preemptions += 1

    def _way_back(self, stored: StoredKv, sequence: Sequence) -> Way:
        """How the pages of a sequence that gives way are to come back."""
        if sequence.scoring is not None or not stored.saves.can_keep_near(sequence):
            return Way.RECOMPUTE
        num_pages = sequence.table.num_known
        compute_s = self.policy.cost.prompt_s(num_pages * PAGE_SIZE, 0) / num_pages
        seconds = PageSeconds(compute_s=compute_s, copy_s=stored.host_page_s())
        return cheaper_way(num_pages, stored.saves.num_near(sequence), seconds)

    def _victim(self) -> Sequence:
        """The one that gives its pages back first."""
        return self._last_scored() or self.running[-1]

    def _preempt_scored(self) -> bool:
        """Take the pages of a sequence that is scored for one that waits; whether there was any."""
        if (victim := self._last_scored()) is None:
            return False
        self._preempt(victim)
        return True

    def _last_scored(self) -> Sequence | None:
        if not self._num_scored:
            return None
        return next((sequence for sequence in reversed(self.running) if sequence.scoring is not None), None)

    def _wait_again(self, sequence: Sequence) -> None:
        """An admitted sequence returns to the head of its queue, without its pages."""
        self._num_scored -= sequence.scoring is not None
        sequence.state = State.WAITING
        sequence.num_computed = 0
        self._queue_of(sequence).appendleft(sequence)

    def _queue_of(self, sequence: Sequence) -> deque[Sequence]:
        return self.waiting if sequence.scoring is None else self.waiting_scored

    @property
    def is_full(self) -> bool:
        """Whether all places are taken."""
        return self._num_admitted - self._num_scored >= self._max_running

    def _has_room(self) -> bool:
        return bool(self.waiting) and not self.is_full

    @property
    def _num_admitted(self) -> int:
        return len(self.running) + len(self.restoring)

    @property
    def _kv(self) -> StoredKv:
        assert self._stored is not None, "nothing loads pages"
        return self._stored

    def _reclaim(self) -> bool:
        """Take back pages that only wait to be copied somewhere; whether there were any."""
        return self._stored is not None and self._stored.saves.reclaim()

    def _admit(self) -> None:
        """Start waiting sequences while places and pages last."""
        while self._has_room() and (sequence := self._next_that_fits()) is not None:
            self._start(sequence)
        if self._has_room():
            return  # for want of pages
        while self.waiting_scored and self._num_scored < MAX_TOGETHER and self._fits(self.waiting_scored[0]):
            self._start(self.waiting_scored[0])

    def _next_that_fits(self) -> Sequence | None:
        """The next to be admitted. One that was passed over too often keeps all others back but those that fit beside
        it: short ones, into what is kept for them."""
        order = self.waiting_in_order()
        is_held_up = False
        for sequence in order[:MAX_LOOKAHEAD]:
            if self._fits(sequence) and not (is_held_up and not self._fits_beside(sequence)):
                for passed in tuple(self.waiting):
                    if passed is sequence:
                        break
                    passed.num_skips += 1
                return sequence
            if sequence.num_skips >= MAX_SKIPS and self._needs_all(sequence):
                return None
            is_held_up |= sequence.num_skips >= MAX_SKIPS
        return None

    def _needs_all(self, sequence: Sequence) -> bool:
        """Whether a sequence never fits beside another."""
        leave = self.policy.watermark.pages_to_leave(self.policy.bucket(sequence), 1)
        return num_pages_for(len(sequence.tokens)) + leave > self._blocks.num_pages

    def _fits_beside(self, sequence: Sequence) -> bool:
        """Whether a short sequence fits into the pages that long ones leave to short ones."""
        if self.policy.bucket(sequence) >= LONG:
            return False
        held = sum(len(s.table.pages) for s in self.running if bucket_of(s.num_prompt) < LONG)
        return held + len(sequence.tokens) // PAGE_SIZE + 1 <= self.policy.watermark.num_short

    def _fits(self, sequence: Sequence) -> bool:
        if self._stored is not None and self._stored.restores.is_loading_for(sequence):
            return False  # soon it can share what another loads
        bucket = self.policy.bucket(sequence)
        if sequence.scoring is None and self._num_admitted - self._num_scored >= self.policy.watermark.places(bucket):
            return False
        leave = self.policy.watermark.pages_to_leave(bucket, self._num_admitted)
        while not (fits := self._blocks.can_allocate(sequence.table, sequence.tokens, leave)):
            is_copying = self.policy.now_s() < self._copying_until_s
            if (is_copying or not self._reclaim()) and not (sequence.scoring is None and self._preempt_scored()):
                break
        return fits

    def _start(self, sequence: Sequence) -> None:
        self._queue_of(sequence).remove(sequence)
        self._num_scored += sequence.scoring is not None
        num_cached = self._blocks.allocate(sequence.table, sequence.tokens)
        if sequence.admitted_s is None:
            sequence.num_cached = sequence.kv.pool_tokens = min(num_cached, sequence.num_prompt)
        sequence.num_computed = num_cached
        if self._stored is None and sequence.kv.lease.stored_tokens > num_cached:
            sequence.kv.miss_cause = MissCause.NO_STORE
        if self._stored is not None and self._stored.restores.begin(sequence):
            sequence.state = State.RESTORING
            self.restoring.append(sequence)
        else:
            sequence.state = State.RUNNING
            self.running.append(sequence)
