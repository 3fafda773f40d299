"""Puts together what loads and stores KV pages, from the configuration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.engine.block_manager import PAGE_SIZE, BlockManager
from services.engine.config import KvStoreConfig
from services.engine.kernels.native.page_io import PageIo
from services.engine.kv.counters import Counters
from services.engine.kv.host_tier import HostTier
from services.engine.kv.jobs import PrefetchJob
from services.engine.kv.load_cost import LoadCost
from services.engine.kv.loader import Loader
from services.engine.kv.page_port import NativePort, PagePort
from services.engine.kv.page_source import PageSource
from services.engine.kv.restores import Restores
from services.engine.kv.saver import Saver
from services.engine.kv.saves import Saves
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.kv.store_link import StoreLink
from services.engine.kv.stored_kv import MakeStoredKv, StoredKv
from services.engine.page_table import Owner, PageTable, PublicPrefix
from stagemesh.api.common.v1.common_pb2 import ModelIdentity
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.kv_keys import adapter_label
from stagemesh.runtime.telemetry import get_logger

log = get_logger(__name__)


def stored_kv_maker(
    config: KvStoreConfig,
    identity: ModelIdentity,
    page_io: PageIo | None,
    zero: Callable[[Sequence[int]], None],
    kv_url: str,
) -> MakeStoredKv | None:
    """None where pages are not kept: it is switched off, or the backend cannot move pages.

    Raises ConfigError for a malformed `kv_url`.
    """
    if not config.enabled or page_io is None:
        return None
    format_ = config.format if config.format in page_io.formats else page_io.formats[0]
    if format_ != config.format:
        log.info("pages are stored as the pool holds them", format=format_)
    port = NativePort(page_io, identity, format_, zero)
    return lambda blocks, prefill_token_s: make_stored_kv(config, port, kv_url, blocks, prefill_token_s)


def make_stored_kv(
    config: KvStoreConfig, port: PagePort, kv_url: str, blocks: BlockManager, prefill_token_s: Callable[[], float]
) -> StoredKv:
    """Raises ConfigError for a malformed `kv_url`."""
    breaker = BreakerConfig(failure_threshold=config.breaker_failures, open_s=config.breaker_open_ms / 1000)
    read_link, write_link = (StoreLink(kv_url, breaker) if kv_url else None for _ in range(2))
    counters = Counters()
    source = PageSource(HostTier(config.host_bytes, packing=port.packing), read_link, counters)
    loader = Loader(port, source, LoadCost(port.value_bytes), counters, blocks.knows)
    saver = Saver(port, source, write_link, counters, timeout_s=config.store_timeout_ms / 1000)
    restores = Restores(
        blocks,
        loader,
        counters,
        prefill_token_s,
        max_load_s=config.max_load_ms / 1000,
        always_load=config.always_load,
    )
    saves = Saves(
        blocks,
        saver,
        source,
        counters,
        prefill_token_s,
        page_bytes=port.value_bytes,
        queue_bytes=config.queue_bytes,
        has_store=bool(kv_url),
    )
    return StoredKv(restores, saves, loader, saver, counters)


def prefetch_job(prefetch: engine_pb2.Prefetch, identity: ModelIdentity) -> PrefetchJob | None:
    """What a command asks for; None where nothing could come of it."""
    if not prefetch.cache_salt or not prefetch.kv.stored_tokens:
        return None
    precision = prefetch.model.precision or identity.precision
    model = prefetch.model
    adapter = adapter_label(model.adapter, model.adapter_generation, model.adapter_revision)
    owner = Owner(prefetch.tenant_id, prefetch.cache_salt, precision, prefetch.kv.epoch, adapter)
    public = PublicPrefix(prefetch.kv.public_salt, prefetch.kv.public_tokens // PAGE_SIZE)
    tokens = list(prefetch.token_ids)
    return PrefetchJob(table=PageTable(owner, public), tokens=tokens, kv=SequenceKv(prefetch.kv))
