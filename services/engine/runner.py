"""What the step loop needs of a model, whatever computes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from services.engine.config import KvDtype
from services.engine.kernels.native.lora import LoraPart
from services.engine.kernels.native.page_io import PageIo
from services.engine.modes import Mode
from services.engine.sampler import Sampler
from services.engine.scheduler import WorkItem
from services.engine.stages import Probe


class Runner(Protocol):
    @property
    def sampler(self) -> Sampler:
        """What chooses tokens from this runner's logits."""

    @property
    def modes(self) -> Sequence[Mode]:
        """Those that it has weights of their own for, the first of which computes sequences without a mode."""

    def run(self, items: Sequence[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
        """Compute the items' KV; gives the last `num_sampled` rows of logits of each, in order: [R, V].

        With the weights of `mode`, or else of each sequence's own mode.
        """

    def zero(self, pages: Sequence[int]) -> None:
        """Clear KV pages."""

    def copy_page(self, page: int, to: int) -> None:
        """Write to a page what another holds."""


class AdapterSlots(Protocol):
    """The kernels' numbered places for adapters."""

    def set_adapter(self, adapter: int, parts: Sequence[LoraPart]) -> None:
        """Put `parts` there, or nothing; for any thread, while no row of a step has this adapter."""


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A model in memory and what callers must know of how it computes."""

    name: str
    runner: Runner
    precisions: Mapping[Mode, str]
    """The modes it holds, in order, and what each computes with, as `ModelIdentity.precision` says it."""
    kv_layout: str
    weight_bytes: int
    kv_bytes: int
    """Of the whole pool, when every page has been written."""
    adapter_slots: AdapterSlots | None = None
    """Where adapters are put; None where the backend computes without."""
    page_io: PageIo | None = None
    """Takes pages out of the pool and puts them back; None where nothing can, so that no page is stored."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """What a backend makes room for."""

    context_length: int
    num_pages: int
    """Without the padding page."""
    num_threads: int
    kv_dtype: KvDtype = "bfloat16"
    """Of the native kernels' pages."""
