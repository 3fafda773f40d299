"""The operator's way to the cache service."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import grpc

from stagemesh.cli.client.service_channel import Metadata, service_channel


def cache_channel(
    state: Path | None, config: Path | None
) -> AbstractAsyncContextManager[tuple[grpc.aio.Channel, Metadata]]:
    """A channel and the metadata of its calls. Raises CommandError in words for every failed call."""
    return service_channel("cache", state, config)
