"""What computes: PyTorch on float weights, or the native kernels on quantized ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from services.engine.block_manager import PAGE_SIZE
from services.engine.config import EngineConfig
from services.engine.kernels.native.build import KernelsUnavailable
from services.engine.kernels.native.library import load_kernels
from services.engine.kernels.torch_forms import TorchKernels
from services.engine.kv_pool import KvPool
from services.engine.model_runner import ModelRunner, Runner
from services.engine.models.decoder import Decoder
from services.engine.native_runner import NativeRunner
from services.engine.threads import num_physical_cores
from services.engine.weights.load import load_weights
from services.engine.weights.native_weights import load_native
from stagemesh.models.errors import UnsupportedModel
from stagemesh.models.gguf_file import open_gguf
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, kw_only=True)
class Backend:
    """A model in memory and what callers must know of how it computes."""

    name: str
    runner: Runner
    precision: str
    kv_layout: str
    weight_bytes: int
    kv_bytes: int
    """Of the whole pool, when every page has been written."""


@dataclass(frozen=True, kw_only=True)
class Sizes:
    context_length: int
    num_pages: int


def load_backend(files: ModelFiles, model: TransformerConfig, config: EngineConfig, sizes: Sizes) -> Backend:
    """Raises ModelError for files that cannot be used, KernelsUnavailable where `native` is asked for in vain."""
    threads = num_physical_cores() if config.threads == "auto" else config.threads
    torch.set_num_threads(threads)
    if config.backend == "torch":
        return _load_torch(files, model, config, sizes)
    try:
        return _load_native(files, model, threads, sizes)
    except (KernelsUnavailable, UnsupportedModel) as error:
        if config.backend == "native":
            raise
        log.warning("native kernels not used, computing with torch", reason=str(error))
        return _load_torch(files, model, config, sizes)


def _load_torch(files: ModelFiles, model: TransformerConfig, config: EngineConfig, sizes: Sizes) -> Backend:
    kernels, dtype = TorchKernels(), DTYPES[config.dtype]
    weights = load_weights(files, model, dtype)
    pool = KvPool(model, sizes.num_pages, dtype)
    return Backend(
        name=f"{kernels.name}-cpu",
        runner=ModelRunner(Decoder(model, weights, kernels, sizes.context_length), pool),
        precision=config.dtype,
        kv_layout=f"{config.dtype}-p{PAGE_SIZE}",
        weight_bytes=weights.num_bytes(),
        kv_bytes=pool.num_bytes(),
    )


def _load_native(files: ModelFiles, model: TransformerConfig, threads: int, sizes: Sizes) -> Backend:
    if files.kind != "gguf":
        raise UnsupportedModel(f"{files.path}: the native kernels need a GGUF file")
    library = load_kernels(files.cache_dir / "kernels")
    decoder = load_native(
        open_gguf(files.path),
        model,
        library,
        num_positions=sizes.context_length,
        num_pages=sizes.num_pages,
        threads=threads,
    )
    return Backend(
        name=f"native-{library.level.name}",
        runner=NativeRunner(decoder, model.vocab_size),
        precision="quantized",
        kv_layout=f"bfloat16-p{PAGE_SIZE}-native",
        weight_bytes=decoder.weight_bytes(),
        kv_bytes=decoder.kv_bytes(),
    )
