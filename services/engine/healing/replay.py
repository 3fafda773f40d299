"""One sequence's share of a failed step, stage by stage: each outcome is looked at, and what fails is done by the
stage's fallback. Rows that do not fail keep the bits of the step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from services.engine.healing.degradation import Degradation, HealingFailed, is_adapted
from services.engine.healing.kv_rows import KvRows
from services.engine.healing.low_rank import LowRankMlp, low_rank_mlp
from services.engine.healing.reference_forms import ReferenceForms
from services.engine.healing.step_faults import StepFaults
from services.engine.kernels.native.library import Batch, Decoder
from services.engine.kernels.native.page_io import PageIo
from services.engine.kernels.native.stages import Stages
from services.engine.native_runner import build_native_batch
from services.engine.scheduler import WorkItem
from services.engine.stages import Part
from stagemesh.runtime.telemetry import get_logger

Floats = npt.NDArray[np.float32]
Rows = list[int]
Norm = Literal["attention", "ffn", "final"]

log = get_logger(__name__)


@dataclass(frozen=True)
class Replayed:
    logits: Floats
    """[sampled rows, V]"""
    degradations: tuple[Degradation, ...]
    """Empty: what failed did not fail again."""


class Replayer:
    """Replays on the native kernels. Substitutes of MLPs are kept once they are made."""

    def __init__(self, decoder: Decoder, vocab_size: int, faults: StepFaults) -> None:
        self.decoder, self.vocab_size, self.faults = decoder, vocab_size, faults
        self.kv = KvRows(PageIo(decoder))
        self._substitutes: dict[tuple[str, int], LowRankMlp] = {}

    def replay(self, item: WorkItem) -> Replayed:
        """The item without its drafts. Raises HealingFailed."""
        return _Pass(self, replace(item, drafts=())).run()

    def spoil(self, item: WorkItem, layer: int) -> None:
        """Leave keys and values that are not finite where the item's are, on purpose, as a step does that computes
        them from such numbers."""
        shape = (len(item.token_ids), self.decoder.shape.hidden_size)
        batch: Batch = replace(build_native_batch([item]), choices=None)
        stages = Stages(self.decoder, item.sequence.mode or self.decoder.weights[0])
        stages.attend(layer, batch, np.full(shape, np.nan, np.float32), np.zeros(shape, np.float32))

    def substitute(self, weights: str, layer: int) -> LowRankMlp:
        key = (weights, layer)
        if key not in self._substitutes:
            self._substitutes[key] = low_rank_mlp(self.decoder.layer(weights, layer))
        return self._substitutes[key]


class _Pass:
    """One replay of one item."""

    def __init__(self, replayer: Replayer, item: WorkItem) -> None:
        self._replayer, self._item = replayer, item
        self._decoder, self._faults = replayer.decoder, replayer.faults
        self._weights = item.sequence.mode or self._decoder.weights[0]
        self._stages = Stages(self._decoder, self._weights)
        self._reference = ReferenceForms(self._decoder, self._weights, replayer.kv)
        self._batch: Batch = replace(build_native_batch([item]), choices=None)
        self._found: list[Degradation] = []

    def run(self) -> Replayed:
        num_layers = self._decoder.shape.num_layers
        x = self._embed()
        for layer in range(num_layers):
            weights = self._decoder.layer(self._weights, layer)
            x = self._attend(layer, self._norm("attention", layer, weights.attention_norm, x), x)
            x = self._mlp(layer, self._norm("ffn", layer, weights.ffn_norm, x), x)
        sampled = x[len(x) - self._item.num_sampled :]
        if not len(sampled):
            return Replayed(np.empty((0, self._replayer.vocab_size), np.float32), tuple(self._found))
        _, _, weight = self._decoder.ends(self._weights)
        logits = self._head(self._norm("final", num_layers - 1, weight, sampled))
        return Replayed(logits[:, : self._replayer.vocab_size], tuple(self._found))

    def _embed(self) -> Floats:
        tokens = self._item.token_ids
        return self._stage(
            Part.EMBED,
            None,
            len(tokens),
            lambda: self._stages.embed(self._batch),
            lambda rows: self._reference.embed([tokens[row] for row in rows]),
        )

    def _norm(self, which: Norm, layer: int, weight: Floats, x: Floats) -> Floats:
        return self._stage(
            Part.NORM,
            layer,
            len(x),
            lambda: self._stages.norm(which, layer, x),
            lambda rows: self._reference.norm(weight, x[rows]),
        )

    def _attend(self, layer: int, normed: Floats, x: Floats) -> Floats:
        pages, first = self._item.sequence.table.pages, self._item.start
        return self._stage(
            Part.ATTEND,
            layer,
            len(x),
            lambda: self._stages.attend(layer, self._batch, normed, x),
            lambda rows: self._reference.attend(layer, pages, [first + row for row in rows], normed[rows], x[rows]),
        )

    def _mlp(self, layer: int, normed: Floats, x: Floats) -> Floats:
        return self._stage(
            Part.MLP,
            layer,
            len(x),
            lambda: self._stages.mlp(layer, self._batch, normed, x),
            lambda rows: x[rows] + self._replayer.substitute(self._weights, layer).added(normed[rows]),
        )

    def _head(self, normed: Floats) -> Floats:
        return self._stage(
            Part.SAMPLE,
            None,
            len(normed),
            lambda: self._stages.head(normed),
            lambda rows: self._reference.head(normed[rows]),
        )

    def _stage(
        self,
        part: Part,
        layer: int | None,
        num_rows: int,
        fast: Callable[[], Floats],
        fallback: Callable[[Rows], Floats | None],
    ) -> Floats:
        """The stage's outcome, [N, …], with the rows in which it failed done by the fallback."""
        try:
            self._faults.before_stage(self._item, part, layer)
            out = self._faults.after_stage(self._item, part, layer, fast())
        except MemoryError:
            return self._fallen_back(part, layer, list(range(num_rows)), "OUT_OF_MEMORY", fallback)
        except Exception:
            log.exception("stage failed", stage=part.name.lower(), layer=layer)
            return self._fallen_back(part, layer, list(range(num_rows)), "STAGE_FAILED", fallback)
        if np.isfinite(out).all():
            return out
        failed: Rows = np.flatnonzero(~np.isfinite(out).all(axis=-1)).tolist()
        out = out.copy()
        out[failed] = self._fallen_back(part, layer, failed, "NON_FINITE", fallback)
        return out

    def _fallen_back(
        self, part: Part, layer: int | None, rows: Rows, reason: str, fallback: Callable[[Rows], Floats | None]
    ) -> Floats:
        """[rows, …] by the fallback. Raises HealingFailed."""
        try:
            healed = fallback(rows)
        except Exception as error:
            raise HealingFailed(part, layer, f"its fallback fails as well ({type(error).__name__})") from error
        if healed is None or not np.isfinite(healed).all():
            raise HealingFailed(part, layer, "its fallback gives numbers that are not finite")
        degradation = Degradation(part, layer, reason, is_adapted(part, self._item.sequence.adapter))
        if degradation not in self._found:
            self._found.append(degradation)
        log.warning(
            "stage done by its fallback",
            stage=part.name.lower(),
            layer=layer,
            rows=len(rows),
            reason=reason,
            fallback=degradation.fallback,
            sequence_id=self._item.sequence.sequence_id,
        )
        return healed
