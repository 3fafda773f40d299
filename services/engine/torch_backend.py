"""PyTorch on float weights: the reference, and the fallback where the native kernels cannot run."""

from __future__ import annotations

import torch

from services.engine.block_manager import PAGE_SIZE
from services.engine.kernels.torch_forms import TorchKernels
from services.engine.kv_pool import KvPool
from services.engine.model_runner import ModelRunner
from services.engine.models.decoder import Decoder
from services.engine.runner import Backend, Sizes
from services.engine.weights.load import load_weights
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.store import ModelFiles

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def load_torch(files: ModelFiles, model: TransformerConfig, dtype: str, sizes: Sizes) -> Backend:
    """`dtype` is one of DTYPES. Raises ModelError for files that cannot be used."""
    torch.set_num_threads(sizes.num_threads)
    kernels, torch_dtype = TorchKernels(), DTYPES[dtype]
    weights = load_weights(files, model, torch_dtype)
    pool = KvPool(model, sizes.num_pages, torch_dtype)
    return Backend(
        name=f"{kernels.name}-cpu",
        runner=ModelRunner(Decoder(model, weights, kernels, sizes.context_length), pool),
        precisions={"precise": dtype},
        kv_layout=f"{dtype}-p{PAGE_SIZE}",
        weight_bytes=weights.num_bytes(),
        kv_bytes=pool.num_bytes(),
    )
