"""Leases: the permission to reuse pages under a salt, and what was true when it was given.

A lease is not stored. Its ID names the epoch and the erasure counters at the time it was given, so a commit under it
can be refused when the session, its user or everything was erased in between.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass

import uuid_utils

from stagemesh.api.common.v1.common_pb2 import ModelIdentity
from stagemesh.runtime.errors import InvalidRequest
from stagemesh.runtime.kv_keys import adapter_label, netstrings

_LEASE_ID = re.compile(r"([0-9]{1,20})\.([0-9]{1,20})\.([0-9]{1,20})\.[0-9a-f-]{36}")


def salt_of(secret: bytes, epoch: int, tenant_id: str, model: ModelIdentity) -> bytes:
    """The secret under which one tenant's pages of one model identity are reused: 32 bytes."""
    identity = (model.model, model.revision, model.tokenizer_hash, model.precision, model.kv_layout)
    parts = [b"salt", b"%d" % epoch, tenant_id.encode(), *(part.encode() for part in identity)]
    if model.adapter:
        parts.append(adapter_label(model.adapter, model.adapter_generation, model.adapter_revision).encode())
    return hmac.digest(secret, netstrings(*parts), "sha256")


def public_salt_of(secret: bytes, epoch: int, model: ModelIdentity) -> bytes:
    """Likewise of the pages of public prefixes, which all tenants share."""
    return hmac.digest(secret, netstrings(b"public", salt_of(secret, epoch, "", model)), "sha256")


@dataclass(frozen=True)
class LeaseStamp:
    """What was true when a lease was given."""

    epoch: int
    gone: int
    """Erasures of the session until then."""
    gone_user: int
    """Erasures of the user until then."""

    def new_id(self) -> str:
        return f"{self.epoch}.{self.gone}.{self.gone_user}.{uuid_utils.uuid7()}"


def parse_lease_id(lease_id: str) -> LeaseStamp | None:
    """The stamp in a lease's ID; None for a commit without a lease. Raises InvalidRequest for anything else."""
    if not lease_id:
        return None
    match = _LEASE_ID.fullmatch(lease_id)
    if match is None:
        raise InvalidRequest(
            "INVALID_LEASE", "lease_id is not one that OpenSession or Resolve has given", field="lease_id"
        )
    epoch, gone, gone_user = (int(part) for part in match.groups())
    return LeaseStamp(epoch, gone, gone_user)
