"""Health check of a gRPC service for containers: `python -m stagemesh.runtime.probe ADDRESS [SERVICE]`.

Exit code 0 when SERVICE (empty: the process as a whole) is SERVING, 1 when it is not or nothing answers.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

DEFAULT_TIMEOUT_S = 3.0


def probe(address: str, service: str = "", timeout_s: float = DEFAULT_TIMEOUT_S) -> tuple[bool, str]:
    """Whether the service is SERVING, and the word for what it is."""
    with grpc.insecure_channel(address) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)  # its published types know no methods
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=timeout_s, wait_for_ready=True)
        except grpc.RpcError as error:
            return False, str(error.code().name) if isinstance(error, grpc.Call) else str(error)
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return answer.status == health_pb2.HealthCheckResponse.SERVING, name


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m stagemesh.runtime.probe", description=__doc__)
    parser.add_argument("address", help="host:port")
    parser.add_argument("service", nargs="?", default="", help="full service name; empty: the process as a whole")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT_S, metavar="SECONDS")
    given = parser.parse_args(arguments)
    ready, word = probe(given.address, given.service, given.timeout)
    print(f"{given.address} {given.service}: {word}")  # noqa: T201  a command's output
    return 0 if ready else 1


if __name__ == "__main__":
    sys.exit(main())
