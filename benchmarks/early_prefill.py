"""Time to the first token with and without an early-prefill hint, through the whole mesh.

python benchmarks/early_prefill.py [--rounds 20] [--tokens 600] [--busy] [--json]

A user types for two seconds: the client sends a hint of what there is, then the request, which has a few words more. In
turn with a request that nobody hinted at, of the same length. `speedup` is the median of the ratios within a pair.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.cache_warmth import Prompts
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.own_mesh import TENANT, OwnMesh, ask
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc

TYPING_S = 2.0
LAST_WORDS = " Please answer in one short sentence."


def hint(stub: gateway_pb2_grpc.GatewayServiceStub, text: str) -> None:
    """Raises SystemExit where it is not taken."""
    request = gateway_pb2.InferenceRequest(
        chat=common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content=text)])
    )
    metadata = (("authorization", f"Bearer {TENANT}"),)
    if not stub.Hint(gateway_pb2.HintRequest(request=request), metadata=metadata, timeout=10).accepted:
        raise SystemExit("the hint was not accepted")


def measure(mesh: OwnMesh, rounds: int, num_tokens: int) -> dict[str, float]:
    prompts = Prompts()
    without, with_hint, reused = list[float](), list[float](), list[int]()
    with mesh.gateway() as stub:
        ask(stub, prompts.text(num_tokens), num_output=2)  # warms up
        for _ in range(rounds):
            without.append(ask(stub, prompts.text(num_tokens) + LAST_WORDS, num_output=2).ttft_ms)
            typed = prompts.text(num_tokens)
            hint(stub, typed)
            time.sleep(TYPING_S)  # the user's, not a wait for something
            answer = ask(stub, typed + LAST_WORDS, num_output=2)
            with_hint.append(answer.ttft_ms)
            reused.append(answer.usage.cached_tokens)
    return summary(without, with_hint, reused)


def summary(without_ms: Sequence[float], with_ms: Sequence[float], reused: Sequence[int]) -> dict[str, float]:
    return {
        "ttft_without_hint_ms": round(statistics.median(without_ms), 1),
        "ttft_with_hint_ms": round(statistics.median(with_ms), 1),
        "speedup": round(statistics.median(a / b for a, b in zip(without_ms, with_ms, strict=True)), 2),
        "reused_tokens": statistics.median(reused),
        "rounds": len(without_ms),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=600, help="length of what is typed")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    given = parser.parse_args()
    with no_lock() if given.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        mesh = OwnMesh(Path(folder) / "mesh")
        mesh.up({})
        try:
            found = measure(mesh, given.rounds, given.tokens)
        finally:
            mesh.down()
    if given.json:
        print(json.dumps({"machine": describe_machine(), **found}))
        return
    for name, value in found.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
