"""What the step loop asks when a step fails."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from services.engine.healing.config import HealingConfig
from services.engine.healing.degradation import Degradation, HealingFailed
from services.engine.healing.replay import Replayer
from services.engine.healing.step_faults import StepFaults
from services.engine.healing.watchdog import Watchdog, WatchdogLimits
from services.engine.native_runner import NativeRunner
from services.engine.runner import Runner
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence, State
from services.engine.stages import Probe
from stagemesh.runtime.errors import Exhausted, Internal, StagemeshError
from stagemesh.runtime.faults import board
from stagemesh.runtime.telemetry import get_logger

Rows = npt.NDArray[np.float32]
OFF = WatchdogLimits(step_timeout_s=float("inf"), exit_after_s=0)

log = get_logger(__name__)


class HealingNeeded(Exception):
    """The step is computed by stages from the start."""


class Healer:
    """Runs steps unguarded, and replays what fails. For the step loop's thread."""

    def __init__(self, runner: Runner, limits: WatchdogLimits = OFF, max_requeues: int = 3) -> None:
        self._runner = runner
        self._max_requeues = max_requeues
        self.watchdog = Watchdog(limits)
        native = isinstance(runner, NativeRunner)
        num_layers = runner.decoder.shape.num_layers if isinstance(runner, NativeRunner) else 1
        self._faults = StepFaults(num_layers, self.watchdog.over_time, self._spoil if native else None)
        self._replayer = (
            Replayer(runner.decoder, runner.vocab_size, self._faults) if isinstance(runner, NativeRunner) else None
        )
        self.can_replay = native
        self.was_disturbed = False
        """Whether the present step took longer than it should have, by a fault."""
        self._with_faults: set[str] = set()
        """Live sequences that brought faults on purpose."""
        self._guarded: set[str] = set()
        """Live sequences that are computed by stages."""
        self.num_replays = 0

    @property
    def is_on_guard(self) -> bool:
        """Whether steps are looked after beyond running them."""
        return bool(board.is_armed or self._with_faults or self._guarded)

    def begun(self, sequence: Sequence) -> None:
        """A sequence is there."""
        if sequence.faults:
            self._with_faults.add(sequence.sequence_id)

    def ended(self, sequence: Sequence) -> None:
        """It no longer is."""
        self._with_faults.discard(sequence.sequence_id)
        self._guarded.discard(sequence.sequence_id)

    @contextmanager
    def watching(self, items: Seq[WorkItem]) -> Iterator[None]:
        """Around the run of a step."""
        if board.is_armed or self._with_faults:
            self.was_disturbed = self._faults.begin(items)
        else:
            self.was_disturbed = False
            self._faults.clear()
        with self.timing(sum(item.num_rows for item in items)):
            yield

    @contextmanager
    def timing(self, num_rows: int) -> Iterator[None]:
        """Around what computes so many rows, in a step or after it."""
        self.watchdog.begin(num_rows)
        try:
            yield
        finally:
            self.watchdog.end(num_rows, was_disturbed=self.was_disturbed)

    def run(self, items: Seq[WorkItem], probe: Probe) -> Rows:
        """The step itself. Raises whatever a model raises."""
        if not self.is_on_guard:
            return self._runner.run(items, probe)
        guarded = [item for item in items if item.sequence.is_guarded]
        if guarded:
            return self._run_guarded(items, probe)
        self._faults.before_run(items)
        return self._faults.after_run(items, self._runner.run(items, probe))

    def replayed(self, item: WorkItem, error: Exception) -> Rows:
        """The logits of one item of a step that failed by `error`, without drafts; its sequence is marked where a
        fallback did the work. Raises `error` where no replay helps, or HealingFailed."""
        sequence = item.sequence
        if self._replayer is None or isinstance(error, MemoryError | HealingFailed):
            raise error
        self.was_disturbed = True
        self.num_replays += 1
        sequence.num_replays += 1
        replayed = self._replayer.replay(item)
        if replayed.degradations:
            _degrade(sequence, replayed.degradations)
        else:
            log.warning("step replayed, nothing failed again", sequence_id=sequence.sequence_id)
        return replayed.logits

    def may_begin_again(self, sequence: Sequence, error: Exception) -> bool:
        """Whether a sequence that cannot be healed in its place may be computed again; counts that it is."""
        if not isinstance(error, MemoryError | HealingFailed) or sequence.state is not State.RUNNING:
            return False
        sequence.num_requeues += 1
        may = sequence.num_requeues <= self._max_requeues and (
            self._replayer is not None or isinstance(error, MemoryError)
        )
        if may and isinstance(error, HealingFailed):
            may, sequence.is_guarded = not sequence.is_guarded, True
            sequence.takes_drafts = False
            self._guarded.add(sequence.sequence_id)
        log.warning(
            "sequence begins again" if may else "sequence fails", sequence_id=sequence.sequence_id, error=str(error)
        )
        return may

    def _spoil(self, item: WorkItem, layer: int) -> None:
        if self._replayer is not None:
            self._replayer.spoil(item, layer)

    def _run_guarded(self, items: Seq[WorkItem], probe: Probe) -> Rows:
        """As `run`, with some of the items by stages; rows in the order of `items`."""
        rows: list[Rows] = []
        for item in items:
            if item.sequence.is_guarded:
                rows.append(self.replayed(item, HealingNeeded()))
            else:
                rows.append(self._runner.run([item], probe))
        return np.concatenate(rows)


def _degrade(sequence: Sequence, degradations: Seq[Degradation]) -> None:
    """Mark a sequence whose KV came about by fallbacks: its pages are kept from others."""
    sequence.degradations += [new for new in degradations if new not in sequence.degradations]
    sequence.table.is_forgotten = True


def step_failed(error: Exception, *, can_replay: bool) -> StagemeshError:
    """What its caller is told of a sequence that could not be healed; another engine may do better."""
    if isinstance(error, MemoryError):
        return Exhausted("ENGINE_OUT_OF_MEMORY", "the engine has no memory for this sequence", retry_after_ms=1_000)
    if isinstance(error, StagemeshError):
        return error
    how = "" if can_replay else ", and this backend has no stages to replay it by"
    return Internal("STEP_FAILED", f"computing the step failed{how}; the log has more")


def make_healer(config: HealingConfig, runner: Runner) -> Healer:
    limits = WatchdogLimits(step_timeout_s=config.step_timeout_s, exit_after_s=config.exit_after_s)
    return Healer(runner, limits, config.max_requeues)
