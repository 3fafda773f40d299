"""What computes: the native kernels on quantized weights, or PyTorch on float ones, imported only where it computes."""

from __future__ import annotations

from importlib.util import find_spec

from services.engine.block_manager import PAGE_SIZE
from services.engine.config import EngineConfig
from services.engine.kernels.native.build import KernelsUnavailable
from services.engine.kernels.native.library import load_kernels
from services.engine.kernels.native.page_io import PageIo
from services.engine.native_runner import NativeRunner
from services.engine.native_sampler import NativeSampler
from services.engine.runner import Backend, Sizes
from services.engine.weights.head_screen import screen_heads
from services.engine.weights.native_weights import load_native
from stagemesh.models.errors import UnsupportedModel
from stagemesh.models.model_config import TransformerConfig
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.config import ConfigError
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)

KV_LAYOUTS = {"bfloat16": f"bfloat16-p{PAGE_SIZE}-native", "int8": f"int8-row-p{PAGE_SIZE}-native"}
"""`row`: each token has a scale for its key and one for its value, in each head."""
INSTALL_TORCH = "pip install 'stagemesh[torch]'"


class BackendUnavailable(ConfigError):
    """Nothing that is installed can compute this model here; the message says what to install."""


def load_backend(files: ModelFiles, model: TransformerConfig, config: EngineConfig, sizes: Sizes) -> Backend:
    """Raises ModelError for files that cannot be used, BackendUnavailable where nothing here can compute.

    `auto` takes the native kernels where they run this model, else torch where it is installed, with a warning.
    """
    if config.backend == "torch":
        if not has_torch():
            raise BackendUnavailable(f"engine.backend is `torch`, and PyTorch is not installed: {INSTALL_TORCH}")
        return _load_torch(files, model, config, sizes)
    try:
        return _load_native(files, model, config, sizes)
    except (BackendUnavailable, UnsupportedModel) as error:
        if config.backend == "native":
            raise
        if not has_torch():
            raise BackendUnavailable(f"{error}; PyTorch can compute instead: {INSTALL_TORCH}") from None
        log.warning("native kernels not used, computing with torch, which is several times slower", reason=str(error))
        return _load_torch(files, model, config, sizes)


def has_torch() -> bool:
    """Whether PyTorch is installed, without importing it."""
    return find_spec("torch") is not None


def _load_torch(files: ModelFiles, model: TransformerConfig, config: EngineConfig, sizes: Sizes) -> Backend:
    from services.engine.torch_backend import load_torch  # imports torch, which takes seconds and may not be installed

    return load_torch(files, model, config.dtype, sizes)


def _load_native(files: ModelFiles, model: TransformerConfig, config: EngineConfig, sizes: Sizes) -> Backend:
    try:
        library = load_kernels(files.cache_dir / "kernels")
    except KernelsUnavailable as error:
        raise BackendUnavailable(str(error)) from None
    decoder = load_native(
        files,
        model,
        library,
        num_positions=sizes.context_length,
        num_pages=sizes.num_pages,
        threads=sizes.num_threads,
        kv_dtype=sizes.kv_dtype,
        modes=config.modes,
        turbo=config.turbo_weights,
        cache_mb=config.weight_cache_mb,
    )
    if config.screens_head:
        screen_heads(decoder, files, model)
    return Backend(
        name=f"native-{library.level.name}",
        runner=NativeRunner(decoder, model.vocab_size, NativeSampler(library)),
        precisions={mode: "+".join(sorted(decoder.formats(mode))).lower() for mode in config.modes},
        kv_layout=KV_LAYOUTS[sizes.kv_dtype],
        weight_bytes=decoder.weight_bytes(),
        kv_bytes=decoder.kv_bytes(),
        adapter_slots=decoder,
        page_io=PageIo(decoder),
    )
