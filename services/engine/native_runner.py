"""Runs a step's work items through the native kernels."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np
import numpy.typing as npt

from services.engine.choices import choices
from services.engine.kernels.native.library import Batch, Choice, Decoder
from services.engine.modes import MODES, Mode
from services.engine.sampler import Sampler
from services.engine.scheduler import WorkItem
from services.engine.stages import Part, Probe

Seconds = npt.NDArray[np.float64]


class NativeRunner:
    """A model on the native kernels; logits are bitwise the same whatever else is in the step."""

    def __init__(self, decoder: Decoder, vocab_size: int, sampler: Sampler) -> None:
        self.sampler = sampler
        self._decoder = decoder
        self.vocab_size = vocab_size

    @property
    def decoder(self) -> Decoder:
        return self._decoder

    @property
    def modes(self) -> Sequence[Mode]:
        return tuple(mode for name in self._decoder.weights for mode in MODES if mode == name)

    def run(self, items: Sequence[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
        seconds = np.zeros(len(Part)) if probe.measures else None
        by_mode = self._by_mode(items, mode)
        if len(by_mode) == 1:
            ((chosen, members),) = by_mode.items()
            logits = self._decoder.step(build_native_batch(members), seconds, chosen)
        else:
            logits = self._run_in_turn(items, by_mode, seconds)
        if seconds is not None:
            probe.book(seconds.tolist())
        return logits[:, : self.vocab_size]

    def _run_in_turn(
        self, items: Sequence[WorkItem], by_mode: Mapping[str, list[WorkItem]], seconds: Seconds | None
    ) -> npt.NDArray[np.float32]:
        """A pass for each mode; the rows in the order of `items` again."""
        rows: dict[str, npt.NDArray[np.float32]] = {}
        for mode, members in by_mode.items():
            logits = self._decoder.step(build_native_batch(members), seconds, mode)
            ends = np.cumsum([item.num_sampled for item in members])
            for item, end in zip(members, ends, strict=True):
                rows[item.sequence.sequence_id] = logits[end - item.num_sampled : end]
        return np.concatenate([rows[item.sequence.sequence_id] for item in items])

    def read_pass(self, mode: Mode | None = None) -> int:
        """Read what a step of one row reads of the weights, and compute nothing; gives the number of bytes."""
        return self._decoder.read_pass(mode)

    def _by_mode(self, items: Sequence[WorkItem], mode: Mode | None) -> dict[str, list[WorkItem]]:
        groups: dict[str, list[WorkItem]] = {}
        for item in items:
            groups.setdefault(mode or item.sequence.mode or self._decoder.weights[0], []).append(item)
        return groups

    def zero(self, pages: Sequence[int]) -> None:
        for page in pages:
            self._decoder.zero_page(page)

    def copy_page(self, page: int, to: int) -> None:
        self._decoder.copy_page(page, to)


def build_native_batch(items: Sequence[WorkItem]) -> Batch:
    """Rows in the order of `items`; the wanted logits likewise.

    Python's own arrays take a tenth of numpy's time for a few elements.
    """
    wanted: list[Choice] = []
    adapters = array("i") if any(item.sequence.adapter is not None for item in items) else None
    token_ids, positions, sequences, page_starts, pages, sample_rows = (array("i") for _ in range(6))
    for index, item in enumerate(items):
        page_starts.append(len(pages))
        pages.extend(item.sequence.table.pages)
        token_ids.extend(item.token_ids)
        positions.extend(range(item.start, item.row_end))
        sequences.extend(repeat(index, item.num_rows))
        wanted.extend(choices(item))
        if adapters is not None:
            adapter = item.sequence.adapter
            adapters.extend(repeat(-1 if adapter is None else adapter.slot, item.num_rows))
        sample_rows.extend(range(len(token_ids) - item.num_sampled, len(token_ids)))
    return Batch(
        token_ids=token_ids,
        positions=positions,
        sequences=sequences,
        page_starts=page_starts,
        pages=pages,
        sample_rows=sample_rows,
        choices=wanted,
        adapters=adapters,
    )
