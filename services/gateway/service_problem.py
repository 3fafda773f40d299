"""What a failed call to a stage's service means, with a reason of ours where the service itself said nothing."""

from __future__ import annotations

from collections.abc import Mapping

import grpc

from stagemesh.runtime.errors import StagemeshError, Unavailable, from_rpc

BARE = frozenset({"UNAVAILABLE", "CANCELLED", "UNKNOWN"})
"""Names of gRPC codes that stand for a reason where no service gave one: the connection failed or broke."""
AWAY: Mapping[str, str] = {
    "tokenizer": "TOKENIZER_UNAVAILABLE",
    "validator": "VALIDATOR_UNAVAILABLE",
    "corrector": "CORRECTOR_UNAVAILABLE",
}
TOO_SLOW: Mapping[str, str] = {
    "tokenizer": "TOKENIZER_TOO_SLOW",
    "validator": "VALIDATOR_TOO_SLOW",
    "corrector": "CORRECTOR_TOO_SLOW",
}


def service_problem(service: str, error: grpc.RpcError) -> StagemeshError:
    """The service's own error; Unavailable where there was no answer, or none in time."""
    found = from_rpc(error)
    if found.reason == "DEADLINE_EXCEEDED":
        why = f"the {service} did not answer in time; `stagemesh status` shows it"
        return Unavailable(TOO_SLOW[service], why, retry_after_ms=1_000)
    if found.reason in BARE:
        return Unavailable(AWAY[service], f"the {service} is away; `stagemesh status` shows it", retry_after_ms=1_000)
    return found
