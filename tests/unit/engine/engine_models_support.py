"""Runs token lists through the engine's model, in chunks and batches of the test's choice."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from engine_support import make_sequence

from services.engine.block_manager import BlockManager
from services.engine.kernels.native.library import load_kernels
from services.engine.kernels.reference import ReferenceKernels
from services.engine.kernels.torch_forms import TorchKernels
from services.engine.kv_pool import KvPool
from services.engine.model_runner import ModelRunner
from services.engine.models.decoder import Decoder
from services.engine.modes import Mode
from services.engine.native_runner import NativeRunner
from services.engine.native_sampler import NativeSampler
from services.engine.runner import Runner
from services.engine.scheduler import Scheduler, WorkItem
from services.engine.sequence import Sequence
from services.engine.stages import Probe
from services.engine.weights.load import load_weights
from services.engine.weights.native_weights import load_native
from stagemesh.models.model_config import TransformerConfig, load_model_config
from stagemesh.models.store import ModelFiles


class Model:
    """A decoder with pages and a scheduler, driven by hand."""

    def __init__(
        self,
        files: ModelFiles,
        *,
        num_pages: int = 200,
        backend: str = "torch",
        threads: int = 1,
        modes: tuple[Mode, ...] = ("turbo",),
        runner: Runner | None = None,
        kernels: ReferenceKernels | None = None,
        dtype: str = "float32",
        kv_dtype: str = "bfloat16",
    ) -> None:
        self.runner: Runner
        config = load_model_config(files)
        if runner is not None:
            self.runner = runner
        elif backend == "native":
            self.runner = native_runner(files, config, num_pages, threads, modes, kv_dtype)
        else:
            torch_dtype = getattr(torch, dtype)
            weights = load_weights(files, config, torch_dtype)
            decoder = Decoder(config, weights, kernels or TorchKernels(), config.context_length)
            self.runner = ModelRunner(decoder, KvPool(config, num_pages, torch_dtype))
        self.blocks = BlockManager(num_pages)
        self.scheduler = Scheduler(self.blocks, max_running=64)

    def logits(self, prompts: Seq[Seq[int]], chunk: int = 4096) -> list[npt.NDArray[np.float32]]:
        """For each prompt the logits after its last token, computed together in chunks."""
        sequences = [make_sequence(str(number), prompt) for number, prompt in enumerate(prompts)]
        return self._run(sequences, chunk)

    def greedy(self, prompt: Seq[int], num_tokens: int) -> list[int]:
        return self.greedy_batch([prompt], num_tokens)[0]

    def greedy_batch(self, prompts: Seq[Seq[int]], num_tokens: int) -> list[list[int]]:
        sequences = [make_sequence(str(number), prompt) for number, prompt in enumerate(prompts)]
        for sequence in sequences:
            self.scheduler.add(sequence)
        while any(sequence.num_output < num_tokens for sequence in sequences):
            items = self.scheduler.plan(4096)
            rows = self.runner.run(items, Probe())
            for item, row in zip([item for item in items if item.samples], rows, strict=True):
                self.scheduler.completed(item)
                item.sequence.tokens.append(int(row.argmax()))
        for sequence in sequences:
            self.scheduler.remove(sequence)
        return [sequence.tokens[sequence.num_prompt :] for sequence in sequences]

    def _run(self, sequences: Seq[Sequence], chunk: int) -> list[npt.NDArray[np.float32]]:
        found: dict[str, npt.NDArray[np.float32]] = {}
        for sequence in sequences:
            self.blocks.allocate(sequence.table, sequence.tokens)
        while pending := [sequence for sequence in sequences if sequence.num_uncomputed]:
            items = [WorkItem.next(sequence, min(chunk, sequence.num_uncomputed)) for sequence in pending]
            rows = iter(self.runner.run(items, Probe()))
            for item in items:
                self.scheduler.completed(item)
                if item.samples:
                    found[item.sequence.sequence_id] = next(rows)
        for sequence in sequences:
            self.blocks.release(sequence.table)
        return [found[sequence.sequence_id] for sequence in sequences]


def native_runner(
    files: ModelFiles, config: TransformerConfig, num_pages: int, threads: int, modes: tuple[Mode, ...], kv_dtype: str
) -> NativeRunner:
    library = load_kernels(files.cache_dir / "kernels")
    sizes = {"num_positions": config.context_length, "num_pages": num_pages, "threads": threads}
    decoder = load_native(files, config, library, kv_dtype=kv_dtype, **sizes, modes=modes)
    return NativeRunner(decoder, config.vocab_size, NativeSampler(library))


def folder_files(folder: Path) -> ModelFiles:
    return ModelFiles(name="tiny", source=str(folder), kind="hf", path=folder, cache_dir=folder)
