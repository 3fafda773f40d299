"""Runs a step's work items through the native kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from services.engine.block_manager import num_pages_for
from services.engine.kernels.native.library import Batch, Decoder
from services.engine.modes import Mode
from services.engine.sampler import Sampler
from services.engine.scheduler import WorkItem
from services.engine.stages import Part, Probe

Seconds = npt.NDArray[np.float64]


class NativeRunner:
    """A model on the native kernels; logits are bitwise the same whatever else is in the step."""

    def __init__(self, decoder: Decoder, vocab_size: int, sampler: Sampler) -> None:
        self.sampler = sampler
        self._decoder = decoder
        self._vocab_size = vocab_size

    def run(self, items: Sequence[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
        seconds = np.zeros(len(Part)) if probe.measures else None
        by_mode = _by_mode(items, mode)
        if len(by_mode) == 1:
            ((chosen, members),) = by_mode.items()
            logits = self._decoder.step(build_native_batch(members), seconds, chosen)
        else:
            logits = self._run_in_turn(items, by_mode, seconds)
        if seconds is not None:
            probe.book(seconds.tolist())
        return logits[:, : self._vocab_size]

    def _run_in_turn(
        self, items: Sequence[WorkItem], by_mode: Mapping[Mode | None, list[WorkItem]], seconds: Seconds | None
    ) -> npt.NDArray[np.float32]:
        """A pass for each mode; the rows in the order of `items` again."""
        rows: dict[str, npt.NDArray[np.float32]] = {}
        for mode, members in by_mode.items():
            logits = self._decoder.step(build_native_batch(members), seconds, mode)
            ends = np.cumsum([item.num_sampled for item in members])
            for item, end in zip(members, ends, strict=True):
                rows[item.sequence.sequence_id] = logits[end - item.num_sampled : end]
        return np.concatenate([rows[item.sequence.sequence_id] for item in items])

    def zero(self, pages: Sequence[int]) -> None:
        for page in pages:
            self._decoder.zero_page(page)


def _by_mode(items: Sequence[WorkItem], mode: Mode | None) -> dict[Mode | None, list[WorkItem]]:
    groups: dict[Mode | None, list[WorkItem]] = {}
    for item in items:
        groups.setdefault(mode or item.sequence.mode, []).append(item)
    return groups


def build_native_batch(items: Sequence[WorkItem]) -> Batch:
    """Rows in the order of `items`; the wanted logits likewise."""
    tables = [item.sequence.table.pages[: num_pages_for(item.row_end)] for item in items]
    ends = np.cumsum([item.num_rows for item in items])
    return Batch(
        token_ids=np.concatenate([np.array(item.token_ids, np.int32) for item in items]),
        positions=np.concatenate([np.arange(item.start, item.row_end, dtype=np.int32) for item in items]),
        sequences=np.repeat(np.arange(len(items), dtype=np.int32), [item.num_rows for item in items]),
        page_starts=np.cumsum([0, *map(len, tables[:-1])], dtype=np.int32),
        pages=np.concatenate([np.array(table, np.int32) for table in tables]),
        sample_rows=np.concatenate(
            [np.arange(end - item.num_sampled, end, dtype=np.int32) for item, end in zip(items, ends, strict=True)]
        ),
    )
