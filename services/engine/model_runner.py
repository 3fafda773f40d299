"""Runs a step's work items through the PyTorch model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from services.engine.batch_builder import build_batch
from services.engine.kv_pool import KvPool
from services.engine.models.decoder import Decoder
from services.engine.modes import Mode
from services.engine.sampler import ReferenceSampler
from services.engine.scheduler import WorkItem
from services.engine.stages import Probe


class ModelRunner:
    """The decoder with its KV pages: one set of weights, whatever the mode."""

    def __init__(self, decoder: Decoder, pool: KvPool) -> None:
        self._decoder = decoder
        self._pool = pool
        self.sampler = ReferenceSampler()
        self.modes: Sequence[Mode] = ()

    def run(self, items: Sequence[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            logits = self._decoder.forward(build_batch(items), self._pool.layers, probe)
        array: npt.NDArray[np.float32] = logits.numpy()
        return array

    def zero(self, pages: Sequence[int]) -> None:
        with torch.inference_mode():
            self._pool.zero(pages)

    def copy_page(self, page: int, to: int) -> None:
        with torch.inference_mode():
            self._pool.copy(page, to)
