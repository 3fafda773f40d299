"""Faults on purpose in the steps of an engine: in the unguarded step they show as such faults do, in the replay at
their stage, so that they are found there. Where there are none, nothing here is called."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from threading import Event

import numpy as np
import numpy.typing as npt

from services.engine.healing.step_over_time import StepOverTime
from services.engine.scheduler import WorkItem
from services.engine.stages import Part
from stagemesh.runtime.faults import ENGINE_STAGES, Fault, InjectedFault, Kind, board
from stagemesh.runtime.telemetry import get_logger

Floats = npt.NDArray[np.float32]
PART = {name: Part[name.upper()] for name in ENGINE_STAGES}
IN_PROMPTS = tuple(stage for stage in ENGINE_STAGES if PART[stage] is not Part.SAMPLE)
"""Stages of items that yield no token."""
STEP = "step"
MAX_DELAY_S = 10.0

log = get_logger(__name__)


@dataclass
class Striking:
    """A fault in the present step, at one of its sequences."""

    fault: Fault
    sequence_id: str
    is_over: bool = False


class StepFaults:
    def __init__(self, num_layers: int, over_time: Event, spoil: Callable[[WorkItem, int], None] | None = None) -> None:
        """`spoil` leaves keys and values of an item in a layer that are not finite; without it nothing strikes items
        that yield no token."""
        self._num_layers = num_layers
        self._over_time, self._spoil = over_time, spoil
        self._striking: list[Striking] = []
        self._num_steps = 0

    def begin(self, items: Seq[WorkItem]) -> bool:
        """Draw what goes wrong in this step: what its sequences bring, one at a time, where they yield a token, and
        what is on the board. Whether anything does."""
        self._num_steps += 1
        able = [item for item in items if item.samples]
        self._striking = []
        for item in able:
            if item.sequence.faults:
                fault = item.sequence.faults.pop(0)
                self._striking.append(Striking(fault, item.sequence.sequence_id))
        if (posted := self._drawn(has_tokens=bool(able))) is not None:
            among = items if self._strikes_prompts(posted) else able
            victim = among[self._num_steps % len(among)]
            self._striking.append(Striking(posted, victim.sequence.sequence_id))
        for striking in self._striking:
            log.warning("fault on purpose", stage=striking.fault.stage, kind=str(striking.fault.kind))
        return bool(self._striking)

    def clear(self) -> None:
        """Nothing goes wrong in this step."""
        self._striking = []

    def before_run(self, items: Seq[WorkItem]) -> None:
        """Let what breaks a step do so, where its sequence is among `items`. Raises as a step does."""
        for striking in self._of(items):
            fault = striking.fault
            match fault.kind:
                case Kind.KILL:
                    os.kill(os.getpid(), signal.SIGKILL)
                case Kind.OOM:
                    striking.is_over = True
                    raise MemoryError(f"{fault.stage}: no memory, on purpose")
                case Kind.DELAY:
                    striking.is_over = True
                    self._over_time.wait(min(fault.wait_s, MAX_DELAY_S))
                case Kind.HANG:
                    striking.is_over = True
                    if self._over_time.wait(fault.wait_s):
                        raise StepOverTime(fault.stage)
                case Kind.ERROR:
                    raise InjectedFault(f"{fault.stage} fails on purpose")
                case _:
                    pass

    def after_run(self, items: Seq[WorkItem], logits: Floats) -> Floats:
        """Let numbers that are not finite come out: [rows of logits, V]"""
        bad = {striking.sequence_id: striking for striking in self._of(items) if striking.fault.kind is Kind.NAN}
        if not bad:
            return logits
        logits, first = logits.copy(), 0
        for item in items:
            if (striking := bad.get(item.sequence.sequence_id)) is not None:
                logits[first : first + item.num_sampled] = np.nan
                if not item.samples:
                    self._spoil_unnoticed(item, striking.fault)
            first += item.num_sampled
        return logits

    def before_stage(self, item: WorkItem, part: Part, layer: int | None) -> None:
        """In a replay. Raises InjectedFault."""
        if any(striking.fault.kind is Kind.ERROR for striking in self._at(item, part, layer)):
            raise InjectedFault(f"{part.name.lower()} fails on purpose")

    def after_stage(self, item: WorkItem, part: Part, layer: int | None, out: Floats) -> Floats:
        """In a replay: [N, …]; the fault is in its last row."""
        if any(striking.fault.kind is Kind.NAN for striking in self._at(item, part, layer)):
            out = out.copy()
            out[-1] = np.nan
        return out

    def _drawn(self, *, has_tokens: bool) -> Fault | None:
        """What happens now of the board's; in a step without a token, of what can happen there."""
        if has_tokens:
            return board.draw(*ENGINE_STAGES)
        return None if self._spoil is None else board.draw(*IN_PROMPTS, kinds=(Kind.NAN,))

    def _strikes_prompts(self, fault: Fault) -> bool:
        return self._spoil is not None and fault.kind is Kind.NAN and fault.stage in IN_PROMPTS

    def _spoil_unnoticed(self, item: WorkItem, fault: Fault) -> None:
        """Nobody looks at what a prompt's chunk yields but later tokens, by the keys and values of the layers from the
        fault on."""
        part = PART[fault.stage]
        layer = 0 if part is Part.EMBED else self._layer(fault) + (part in {Part.ATTEND, Part.MLP})
        if self._spoil is not None and layer < self._num_layers:
            self._spoil(item, layer)

    def _of(self, items: Seq[WorkItem]) -> list[Striking]:
        if not self._striking:
            return []
        present = {item.sequence.sequence_id for item in items}
        return [striking for striking in self._striking if striking.sequence_id in present and not striking.is_over]

    def _at(self, item: WorkItem, part: Part, layer: int | None) -> list[Striking]:
        return [
            striking
            for striking in self._of([item])
            if PART[striking.fault.stage] is part and (layer is None or layer == self._layer(striking.fault))
        ]

    def _layer(self, fault: Fault) -> int:
        wanted = self._num_layers // 2 if fault.layer is None else fault.layer
        return min(wanted, self._num_layers - 1)
