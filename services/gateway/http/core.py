"""What the HTTP front needs from the gateway."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Protocol

from services.gateway.rates.rate import RateState
from services.gateway.tenants import Tenant
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.deadline import Deadline


class RunningRequest(Protocol):
    """A request that was accepted."""

    request_id: str

    def events(self, after_seq: int = 0) -> AsyncIterator[gateway_pb2.Event]:
        """Events with a greater seq, as they come, up to the final one."""
        ...

    def abandon(self) -> None:
        """A reader left: work that nobody reads and nobody may come back for is stopped."""
        ...


class ModelInfo(Protocol):
    """A served model."""

    @property
    def name(self) -> str: ...
    @property
    def aliases(self) -> Sequence[str]: ...
    @property
    def created(self) -> int:
        """Unix time in seconds since which it is served."""
        ...

    @property
    def context_length(self) -> int:
        """In tokens; 0 when unknown."""
        ...


class AdapterInfo(Protocol):
    """An adapter on a served model."""

    @property
    def name(self) -> str: ...
    @property
    def base(self) -> ModelInfo: ...


class Gateway(Protocol):
    async def authenticate(self, api_key: str | None, tenant_header: str | None) -> Tenant:
        """Raises Unauthenticated or Forbidden."""
        ...

    def rate_state(self, tenant: Tenant) -> RateState:
        """What the tenant may still send."""
        ...

    async def submit(self, tenant: Tenant, request: gateway_pb2.InferenceRequest, deadline: Deadline) -> RunningRequest:
        """Accept a request, or attach to the one with the same ID. Raises StagemeshError."""
        ...

    async def hint(self, tenant: Tenant, request: gateway_pb2.InferenceRequest) -> bool:
        """Compute a prompt ahead of its request; False where too many are. Raises StagemeshError."""
        ...

    def watch(self, tenant: Tenant, request_id: str, after_seq: int = 0) -> AsyncGenerator[gateway_pb2.Event]:
        """Events with a greater seq of a running, deferred or ended request. Raises NotFound."""
        ...

    async def lookup(self, tenant: Tenant, request_id: str) -> gateway_pb2.Final | None:
        """The stored outcome; None while there is none yet. Raises NotFound for an unknown ID."""
        ...

    async def cancel(self, tenant: Tenant, request_id: str) -> common_pb2.Outcome.ValueType: ...

    def list_models(self) -> Sequence[ModelInfo]:
        """Served models, the default one first."""
        ...

    async def list_adapters(self, tenant: Tenant) -> Sequence[AdapterInfo]:
        """The adapters that this tenant may use. Raises Unavailable."""
        ...

    async def readiness(self) -> dict[str, str]:
        """Part → why it is not ready; empty when the gateway can serve."""
        ...
