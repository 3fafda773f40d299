"""What the metadata of a gRPC call says: who calls, and for how long."""

from __future__ import annotations

import hmac

from services.gateway.config import GatewayConfig
from services.gateway.core import Gateway
from services.gateway.tenants import Tenant
from stagemesh.runtime import context
from stagemesh.runtime.channel import MESH_TOKEN_KEY
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.interceptors import Context


def metadata_of(grpc_context: Context) -> dict[str, str]:
    return {key: value for key, value in grpc_context.invocation_metadata() or () if isinstance(value, str)}


async def tenant_of(gateway: Gateway, grpc_context: Context) -> Tenant:
    """The caller's tenant, bound to the context of the call. Raises Unauthenticated or Forbidden."""
    metadata = metadata_of(grpc_context)
    scheme, _, bearer = metadata.get("authorization", "").partition(" ")
    api_key = bearer.strip() if scheme.lower() == "bearer" else metadata.get("x-api-key")
    tenant = await gateway.authenticate(api_key, metadata.get("x-tenant-id"))
    context.tenant_id.set(tenant.tenant_id)
    context.traceparent.set(context.child_traceparent(metadata.get("traceparent", "")))
    return tenant


def has_mesh_token(metadata: dict[str, str], mesh_token: str) -> bool:
    """Whether the caller is the mesh itself, or an operator who reads its state; never where a mesh has no token."""
    given = metadata.get(MESH_TOKEN_KEY, "")
    return bool(mesh_token) and hmac.compare_digest(given.encode(), mesh_token.encode())


def deadline_of(config: GatewayConfig, grpc_context: Context) -> Deadline:
    remaining_s = grpc_context.time_remaining()
    if remaining_s is None:
        return Deadline.after(config.default_timeout_s)
    return Deadline.after(min(remaining_s, config.max_timeout_s))
