"""The step loop: schedule → run → sample → publish. Knows nothing of gRPC, asyncio or threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from services.engine.block_manager import PAGE_SIZE, BlockManager
from services.engine.checks import SensitiveChecks
from services.engine.draft_run import DraftRun
from services.engine.drafting import Drafting, NoDrafting
from services.engine.ending import Ending, end_tokens, take_token
from services.engine.healing.healer import Healer, step_failed
from services.engine.jump_ahead import jump
from services.engine.kv.jobs import LoadJob, SaveJob
from services.engine.kv.stored_kv import MakeStoredKv
from services.engine.mask_thread import MaskThread, with_masks
from services.engine.runner import Runner
from services.engine.sampler import Draw, Sampled, sampling_failed
from services.engine.scheduler import Scheduler, WorkItem
from services.engine.scheduling.idle_mode import IdleMode
from services.engine.scheduling.page_watermark import PageWatermark
from services.engine.scheduling.policy import Policy, PolicyLimits
from services.engine.sequence import Sequence, State
from services.engine.stages import Part, Probe, StageSampler
from services.engine.updates import Finished, Load, QueueState, StepOutput, Update
from services.engine.vocabulary import Vocabulary
from services.engine.wait_estimate import WaitEstimate
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import Internal, StagemeshError
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

COMPLETE = (common_pb2.FINISH_REASON_STOP, common_pb2.FINISH_REASON_LENGTH)
"""Endings after which pages are worth keeping."""
MAX_STALL_S = 1.0
"""While nothing can be computed, the loop looks about so often all the same."""
CLEARED_PER_STEP = 16
"""Pages of an erased tenant; more would hold up those who wait for the step."""

Row = npt.NDArray[np.float32]
Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class CoreLimits:
    num_pages: int
    max_running: int
    prefill_chunk_size: int
    stage_sample_interval: int
    policy: PolicyLimits = field(default_factory=PolicyLimits)


class EngineCore:
    """Not thread-safe: one thread calls add, end and step in turn."""

    def __init__(
        self,
        runner: Runner,
        vocabulary: Vocabulary,
        limits: CoreLimits,
        drafting: Drafting | None = None,
        checks: SensitiveChecks | None = None,
        make_stored: MakeStoredKv | None = None,
        healer: Healer | None = None,
    ) -> None:
        self._runner = runner
        self.healer = healer or Healer(runner)
        self._drafting = drafting or NoDrafting()
        self._checks = checks
        self._masks = MaskThread()
        self._vocabulary = vocabulary
        self._blocks = BlockManager(limits.num_pages)
        self._chunk_size = limits.prefill_chunk_size
        watermark = PageWatermark(limits.num_pages, limits.max_running, limits.policy.high_watermark)
        self.policy = Policy(limits.policy, watermark)
        self.stored = make_stored(self._blocks, lambda: self.policy.cost.token_s) if make_stored else None
        self._scheduler = Scheduler(
            self._blocks, max_running=limits.max_running, stored=self.stored, policy=self.policy
        )
        self._stages = StageSampler(limits.stage_sample_interval)
        self._wait = WaitEstimate(limits.max_running)
        self._sequences: dict[str, Sequence] = {}
        self._positions: dict[str, int] = {}
        self._updates: dict[str, Update] = {}
        self._num_steps = 0
        self._num_drafted = self._num_accepted = 0
        self._is_stalled = False
        self.idle: IdleMode | None = None

    def has_work(self) -> bool:
        return bool(self._sequences)

    def wait_s(self) -> float | None:
        """How long the next step may wait for a command; None: until there is one."""
        if self._blocks.has_pages_to_clear():
            return 0.0
        if not self._sequences:
            return None
        return max(0.0, min(MAX_STALL_S, self._next_deadline_s() - time.monotonic())) if self._is_stalled else 0.0

    def _next_deadline_s(self) -> float:
        return min((sequence.deadline_s for sequence in self._sequences.values()), default=float("inf"))

    def add(self, sequence: Sequence) -> None:
        """Queue a new sequence; its ID must not be in use."""
        assert sequence.sequence_id not in self._sequences, "the registry keeps IDs apart"
        is_checked = self._checks is not None and self._checks.concerns(sequence)
        sequence.reads_logits = is_checked or sequence.scoring is not None
        num_pages = self._blocks.num_cached_pages(sequence.table, sequence.tokens)
        self.policy.arrived(sequence, PAGE_SIZE * max(num_pages, sequence.kv.num_stored_pages))
        self._sequences[sequence.sequence_id] = sequence
        self.healer.begun(sequence)
        self._scheduler.add(sequence)
        place_s = self._wait.seconds(len(self._scheduler.waiting)) if self._scheduler.is_full else 0.0
        if refused := self.policy.refusal(sequence, self._scheduler, time.monotonic(), place_s):
            self._fail(sequence, refused)

    def end(self, sequence_id: str, ending: Ending) -> None:
        """End a sequence from outside, at a step boundary. An ended or unknown one is left alone."""
        if (sequence := self._sequences.get(sequence_id)) is not None:
            self._finish(sequence, ending)

    def fail(self, sequence: Sequence, error: StagemeshError) -> None:
        """End a sequence at which something broke down outside a step, whether or not it was taken up."""
        if sequence.sequence_id in self._sequences:
            self._fail(sequence, error)
        else:
            self._tell_end(sequence, Ending(common_pb2.FINISH_REASON_ERROR, error=error))

    def end_all(self, ending: Ending) -> None:
        for sequence in tuple(self._sequences.values()):
            self._finish(sequence, ending)

    def loaded(self, job: LoadJob) -> None:
        """What could be loaded of a sequence has been: it goes on with the rest."""
        assert self.stored is not None, "nothing loads pages"
        if self.stored.restores.ended(job):
            self._scheduler.restored(job.sequence)

    def copied(self, job: SaveJob) -> None:
        """Pages that were held have been copied."""
        assert self.stored is not None, "nothing copies pages"
        self.stored.saves.copied(job)

    def forget(self, tenant_id: str) -> None:
        """Keep nothing of a tenant for reuse; what lies free is cleared by the next steps.

        What its running sequences hold ends with them.
        """
        for sequence in self._sequences.values():
            if sequence.owner.tenant_id == tenant_id:
                sequence.table.is_forgotten = True
        if self.stored is not None:
            self.stored.saves.forget_tenant(tenant_id)
        self._blocks.forget_tenant(tenant_id)

    def has_pages_out(self) -> bool:
        """Whether other threads have pages, which `loaded` or `copied` brings back."""
        return self.stored is not None and self.stored.is_out()

    def step(self) -> StepOutput:
        """One step; gives the news since the last."""
        started_s = time.monotonic()
        self._expire(started_s)
        if self._checks is not None:
            self._checks.refresh()
        if self._scheduler.restoring:
            self._scheduler.go_on_without_pages()
        items = self._scheduler.plan(self._chunk_size)
        self._is_stalled = not items
        if items:
            if self.idle is not None:
                self.idle.before_step(started_s, sum(item.num_tokens for item in items))
            self._execute(items, started_s)
            self._num_steps += 1
            if self.idle is not None:
                self.idle.after_step(started_s, time.monotonic())
        if self.stored is not None:
            self.stored.saves.spill()
        self._runner.zero(self._blocks.take_pages_to_clear(CLEARED_PER_STEP))
        self._tell_queue()
        updates, self._updates = list(self._updates.values()), {}
        return StepOutput(updates, self.load())

    def load(self) -> Load:
        sequences = self._sequences.values()
        return Load(
            running=len(self._scheduler.running) + len(self._scheduler.restoring),
            waiting=len(self._scheduler.waiting),
            in_flight_tokens=sum(s.num_uncomputed + s.max_total_tokens - len(s.tokens) for s in sequences),
            used_pages=self._blocks.num_used,
            steps=self._num_steps,
            draft_tokens=self._num_drafted,
            accepted_tokens=self._num_accepted,
            seconds_per_place=self._wait.seconds(1),
            threads=0 if self.idle is None else self.idle.threads,
            is_idle=self.idle is not None and self.idle.is_idle,
        )

    def sequences(self) -> Seq[Sequence]:
        """All that have not ended, running ones first."""
        return tuple(self._scheduler)

    @property
    def num_preemptions(self) -> int:
        return self._scheduler.num_preemptions

    def check_integrity(self) -> None:
        """Assert that pages and sequences agree; for tests and idle moments."""
        tables, held = [sequence.table for sequence in self._scheduler], list[int]()
        if self.stored is not None:
            tables += self.stored.tables()
            held += self.stored.held()
        self._blocks.check_integrity(tables, held)
        assert {s.sequence_id for s in self._scheduler} == self._sequences.keys(), "a sequence is lost or kept for ever"

    def _execute(self, items: Seq[WorkItem], started_s: float) -> None:
        num_prompt_tokens = sum(item.num_tokens for item in items if item.is_prompt)
        probe = self._stages.begin(num_prompt_tokens > 0)
        for item in items:
            if item.sequence.admitted_s is None:
                item.sequence.admitted_s = started_s
        items = with_masks(self._drafting.add_drafts(items, self._with_drafts))
        run_started_s = time.monotonic()
        with self.healer.watching(items), self._masks.preparing(items) as late:
            rows = self._run(items, probe)
        for sequence in late:
            if sequence.sequence_id in self._sequences:
                self._fail(sequence, Internal("STEP_FAILED", "the constraint's mask was not worked out in time"))
        run_s = time.monotonic() - run_started_s
        done = [item for item in items if item.sequence.state is State.RUNNING]  # else its run failed
        runs = [DraftRun(item, rows[item.sequence.sequence_id]) for item in done if item.samples]
        endings = self._take_tokens(runs)
        for run in runs:
            if run.sequence.state is State.RUNNING:
                self._account(run)
        for item in done:
            if not item.samples:
                self._scheduler.completed(item)
                if item.sequence.scoring is not None:
                    endings += self._take_scores(item, rows[item.sequence.sequence_id])
                    continue
                if item.start < item.sequence.num_prompt:
                    self._update(item.sequence).queue = QueueState(0, 0.0, min(item.end, item.sequence.num_prompt))
        probe.mark(Part.SAMPLE)
        seconds = time.monotonic() - started_s
        self.policy.measured(seconds, items, is_usual=not self.healer.was_disturbed)
        if not self.healer.was_disturbed:
            self._drafting.measured(runs, sum(item.num_rows for item in items), run_s)
        shares = self._stages.end(probe, num_prompt_tokens > 0)
        for item in items:
            item.sequence.stage_seconds.add(seconds, shares)
        endings += self._jump_ahead(runs, endings)
        for sequence, ending in endings:
            self._finish(sequence, ending)

    def _jump_ahead(self, runs: Seq[DraftRun], endings: Seq[tuple[Sequence, Ending]]) -> list[tuple[Sequence, Ending]]:
        """Take what the grammars of those that go on force next; gives the endings that it causes."""
        ended = {sequence.sequence_id for sequence, _ in endings}
        taking_part = [run.sequence for run in runs if run.sequence.state is State.RUNNING and run.num_taken]
        going_on = [sequence for sequence in taking_part if sequence.sequence_id not in ended]
        return [(sequence, ending) for sequence in going_on if (ending := self._jump(sequence)) is not None]

    def _jump(self, sequence: Sequence) -> Ending | None:
        try:
            ending = jump(sequence, self._vocabulary)
        except StagemeshError as error:
            ending = Ending(common_pb2.FINISH_REASON_ERROR, error=error)
        except Exception:
            log.exception("jumping ahead failed", sequence_id=sequence.sequence_id)
            ending = Ending(common_pb2.FINISH_REASON_ERROR, error=sampling_failed())
        self._tell_tokens(sequence)
        return ending

    def _with_drafts(self, item: WorkItem, drafts: Seq[int]) -> WorkItem:
        """As the scheduler's, and the pages are clear: weights that draft write to them before the step does."""
        item = self._scheduler.with_drafts(item, drafts)
        self._runner.zero(self._blocks.take_pages_to_zero())
        return item

    def _run(self, items: Seq[WorkItem], probe: Probe) -> dict[str, Rows]:
        """Sampled rows of logits by sequence, [n, V].

        A step that fails is run again one sequence at a time, so that only the cause fails, and the cause is healed.
        That is safe: writing KV for the same position gives the same bytes.
        """
        self._runner.zero(self._blocks.take_pages_to_zero())
        try:
            rows = self.healer.run(items, probe)
        except Exception as error:  # noqa: BLE001  it is healed, or told to the sequence's caller
            if len(items) == 1:
                healed = self._healed(items[0], error)
                return {} if healed is None else {items[0].sequence.sequence_id: healed}
            log.warning("step failed, running its sequences one by one", num_sequences=len(items), error=str(error))
            return {key: row for item in items for key, row in self._run([item], probe).items()}
        ends = accumulate(item.num_sampled for item in items)
        return {
            item.sequence.sequence_id: rows[end - item.num_sampled : end] for item, end in zip(items, ends, strict=True)
        }

    def _healed(self, item: WorkItem, error: Exception) -> Rows | None:
        """Rows of an item whose step failed, without drafts; None: its sequence begins again, or has ended."""
        sequence = item.sequence
        try:
            rows = self.healer.replayed(item, error)
        except Exception as failed:
            if self.healer.may_begin_again(sequence, failed):
                self._scheduler.begin_again(sequence, spoiled=not isinstance(failed, MemoryError))
            else:
                log.exception("sequence failed", sequence_id=sequence.sequence_id)
                self._fail(sequence, step_failed(failed, can_replay=self.healer.can_replay))
            return None
        self._update(sequence).degradations = tuple(sequence.degradations)
        return rows

    def _redrawn(self, run: DraftRun, chosen: StagemeshError) -> Sampled | StagemeshError | None:
        """A choice in the place of one that failed; None: there will be one later, or its sequence has ended."""
        if chosen.reason != "NON_FINITE_LOGITS" or run.num_taken or not self.healer.can_replay:
            return chosen
        with self.healer.timing(run.item.num_rows):
            rows = self._healed(run.item, chosen)
        if rows is None:
            return None
        draw = Draw(rows[0], run.sequence, end_tokens(run.sequence, self._vocabulary))
        return next(self._drawn([draw]))

    def _take_tokens(self, runs: Seq[DraftRun]) -> list[tuple[Sequence, Ending]]:
        """Choose the next token of each run, then the one after for those whose draft was right, and so on."""
        endings: list[tuple[Sequence, Ending]] = []
        while runs:
            going_on = []
            rows = self._checked_rows(runs)
            runs = [run for run in runs if run.sequence.state is State.RUNNING]
            draws = [
                Draw(row, run.sequence, end_tokens(run.sequence, self._vocabulary))
                for run, row in zip(runs, rows, strict=True)
            ]
            for run, drawn in zip(runs, list(self._drawn(draws)), strict=True):
                chosen = self._redrawn(run, drawn) if isinstance(drawn, StagemeshError) else drawn
                if chosen is None:
                    continue
                ending = self._take(run.sequence, chosen)
                if ending is not None and ending.error is not None and run.item.drafts:
                    run.sequence.takes_drafts = False  # whether it fails without them, the next step shows
                elif ending is not None:
                    endings.append((run.sequence, ending))
                elif run.goes_on() and chosen is drawn:
                    going_on.append(run)
            runs = going_on
        return endings

    def _drawn(self, draws: Seq[Draw]) -> Iterator[Sampled | StagemeshError]:
        """A choice for each; where it would leave its answer too few tokens to be completed, the one that does not."""
        for draw, chosen in zip(draws, self._runner.sampler.sample_all(draws), strict=True):
            constraint = draw.sequence.constraint
            if constraint is not None and isinstance(chosen, Sampled) and not constraint.admits(chosen.token):
                yield from self._runner.sampler.sample_all([draw])
            else:
                yield chosen

    def _checked_rows(self, runs: Seq[DraftRun]) -> list[Row]:
        """The logits to choose from: those of the step, or of the weights that check it.

        Where checking fails, each is checked alone, so that only the cause is ended; there is no row for it.
        """
        if self._checks is None:
            return [run.row for run in runs]
        try:
            return self._checks.rows(runs)
        except Exception as error:
            if len(runs) == 1:
                log.exception("checking a token failed", sequence_id=runs[0].sequence.sequence_id)
                failed = Internal("STEP_FAILED", "checking a token failed; the log has more")
                self._fail(runs[0].sequence, failed)
                return []
            log.warning("checking tokens failed, checking them one by one", num_runs=len(runs), error=str(error))
            return [row for run in runs for row in self._checked_rows([run])]

    def _account(self, run: DraftRun) -> None:
        """Note what a run has come to, before endings free its pages."""
        if run.num_taken:
            run.sequence.num_forwards += 1
            self._scheduler.completed(run.item, run.num_accepted)
            if run.sequence.num_forwards == 1:
                self.policy.first_token(run.sequence, time.monotonic())
        else:
            self._scheduler.undone(run.item)
        run.sequence.num_drafted += len(run.item.drafts)
        run.sequence.num_accepted += run.num_accepted
        self._num_drafted += len(run.item.drafts)
        self._num_accepted += run.num_accepted

    def _take(self, sequence: Sequence, chosen: Sampled | StagemeshError) -> Ending | None:
        if isinstance(chosen, StagemeshError):
            return Ending(common_pb2.FINISH_REASON_ERROR, error=chosen)
        try:
            ending = take_token(sequence, chosen.token, self._vocabulary)
        except StagemeshError as error:
            return Ending(common_pb2.FINISH_REASON_ERROR, error=error)
        except Exception:
            log.exception("sampling failed", sequence_id=sequence.sequence_id)
            return Ending(common_pb2.FINISH_REASON_ERROR, error=sampling_failed())
        self._tell_tokens(sequence)
        if chosen.logprobs is not None:
            self._update(sequence).logprobs.append(chosen.logprobs)
        return ending

    def _take_scores(self, item: WorkItem, rows: Rows) -> list[tuple[Sequence, Ending]]:
        """Note what the step says of a scored sequence; gives the ending that it comes to."""
        sequence = item.sequence
        assert sequence.scoring is not None, "the sequence is not scored"
        try:
            sequence.scoring.take(item.start, rows, self._runner.sampler)
            sequence.scoring.steps.add(self._num_steps)
        except StagemeshError as error:
            return [(sequence, Ending(common_pb2.FINISH_REASON_ERROR, error=error))]
        except Exception:
            log.exception("scoring failed", sequence_id=sequence.sequence_id)
            return [(sequence, Ending(common_pb2.FINISH_REASON_ERROR, error=sampling_failed()))]
        if sequence.degradations:  # an answer is marked; a score of another computation is worth nothing
            by_fallback = Internal("STEP_FAILED", "a part of the scores' computation failed")
            return [(sequence, Ending(common_pb2.FINISH_REASON_ERROR, error=by_fallback))]
        if item.end < len(sequence.tokens):
            return []
        if not sequence.scoring.has_branched:
            self._branch(sequence)
        return [(sequence, Ending(common_pb2.FINISH_REASON_STOP))]

    def _branch(self, trunk: Sequence) -> None:
        """Begin the branches of a scored sequence that is computed to its end, from its pages where there is room."""
        assert trunk.scoring is not None, "the sequence is not scored"
        trunk.scoring.has_branched = True
        for branch in trunk.scoring.branches:
            self.add(branch)
            branch.admitted_s = trunk.admitted_s
            copied = self._scheduler.fork(trunk, branch)
            self._runner.zero(self._blocks.take_pages_to_zero())
            if copied is not None:
                self._runner.copy_page(*copied)

    def _tell_tokens(self, sequence: Sequence) -> None:
        if sequence.num_told < sequence.num_output:
            self._update(sequence).tokens += sequence.tokens[sequence.num_prompt + sequence.num_told :]
            sequence.num_told = sequence.num_output

    def _fail(self, sequence: Sequence, error: StagemeshError) -> None:
        self._finish(sequence, Ending(common_pb2.FINISH_REASON_ERROR, error=error))

    def _finish(self, sequence: Sequence, ending: Ending) -> None:
        is_answer = ending.reason in COMPLETE and sequence.scoring is None
        if is_answer and sequence.state is State.RUNNING:
            if self.stored is not None:
                self.stored.saves.save(sequence)
            self._blocks.keep_tail(sequence.table, sequence.tokens, sequence.num_computed)
        self._scheduler.remove(sequence, poisoned=ending.error is not None)
        self.policy.left(sequence)
        self.healer.ended(sequence)
        del self._sequences[sequence.sequence_id]
        self._positions.pop(sequence.sequence_id, None)
        self._drafting.forget(sequence)
        if sequence.admitted_s is not None and sequence.scoring is None:
            self._wait.ran(time.monotonic() - sequence.admitted_s)
        self._tell_end(sequence, ending)

    def _tell_end(self, sequence: Sequence, ending: Ending) -> None:
        if sequence.adapter is not None:
            sequence.adapter.num_ended += sequence.num_in_all
        self._update(sequence).finished = Finished(
            ending=ending,
            prompt_tokens=sequence.num_prompt,
            completion_tokens=sequence.num_output,
            cached_tokens=sequence.num_cached,
            draft_tokens=sequence.num_drafted,
            accepted_tokens=sequence.num_accepted,
            forced_tokens=sequence.num_forced,
            forwards=sequence.num_forwards,
            stage_seconds=tuple(sequence.stage_seconds.by_part),
            kv=sequence.kv.report(sequence.num_prompt, sequence.num_computed),
            degradations=tuple(sequence.degradations),
            num_replays=sequence.num_replays,
        )

    def _expire(self, now_s: float) -> None:
        for sequence in tuple(self._sequences.values()):
            if sequence.deadline_s <= now_s:
                self._finish(sequence, Ending(common_pb2.FINISH_REASON_DEADLINE))
            elif refused := self.policy.refusal_of_waiting(sequence, now_s):
                self._fail(sequence, refused)

    def _tell_queue(self) -> None:
        """Tell each waiting sequence its position when that is news, while nothing of it has been computed."""
        for index, sequence in enumerate(self._scheduler.waiting_in_order(), start=1):
            if sequence.admitted_s is None and self._positions.get(sequence.sequence_id) != index:
                self._positions[sequence.sequence_id] = index
                self._update(sequence).queue = QueueState(index, self._wait.seconds(index), 0)

    def _update(self, sequence: Sequence) -> Update:
        return self._updates.setdefault(sequence.sequence_id, Update(sequence.sequence_id))
