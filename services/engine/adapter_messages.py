"""Adapters as protocol messages."""

from __future__ import annotations

from services.engine.adapter import LoadedAdapter
from stagemesh.api.engine.v1 import engine_pb2


def adapter_message(adapter: LoadedAdapter, *, retiring: bool = False) -> engine_pb2.Adapter:
    """Everything that is known of it."""
    return engine_pb2.Adapter(
        name=adapter.name,
        generation=adapter.generation,
        revision=adapter.revision,
        rank=adapter.rank,
        targets=adapter.targets,
        bytes=adapter.num_bytes,
        loaded_unix_us=int(adapter.loaded_unix_s * 1e6),
        sequences=adapter.num_running,
        retiring=retiring,
        path=adapter.path,
    )


def adapter_name_message(adapter: LoadedAdapter) -> engine_pb2.Adapter:
    """By what it can be asked for."""
    return engine_pb2.Adapter(name=adapter.name, generation=adapter.generation, revision=adapter.revision)
