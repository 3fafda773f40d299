"""What a failed call to the cache service means, with a reason of ours where the service itself said nothing."""

from __future__ import annotations

import grpc

from stagemesh.runtime.errors import DeadlineExceeded, StagemeshError, Unavailable, from_rpc

OUT_OF_REACH = frozenset({"CACHE_UNAVAILABLE", "CACHE_TOO_SLOW"})
"""Nothing was heard from the service: it may answer when it is asked again."""
BARE = frozenset({"UNAVAILABLE", "CANCELLED", "UNKNOWN"})
"""Names of gRPC codes that stand for a reason where no service gave one: the connection failed or broke."""


def cache_problem(error: grpc.RpcError | DeadlineExceeded) -> StagemeshError:
    """The service's own error; Unavailable with CACHE_UNAVAILABLE or CACHE_TOO_SLOW where there was no answer."""
    found = error if isinstance(error, DeadlineExceeded) else from_rpc(error)
    if found.reason == "DEADLINE_EXCEEDED":
        return Unavailable("CACHE_TOO_SLOW", "the cache service did not answer in time; `stagemesh status` shows it")
    if found.reason in BARE:
        return Unavailable("CACHE_UNAVAILABLE", "the cache service is away; `stagemesh status` shows it")
    return found
