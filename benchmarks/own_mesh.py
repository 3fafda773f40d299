"""A whole mesh of a benchmark's own, driven through the `stagemesh` command, and its users."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import yaml

from stagemesh.api.cache.v1 import cache_pb2, cache_pb2_grpc
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc

START_TIMEOUT_S = 180
POLL_S = 0.05
TENANT = "dev"


@dataclass(frozen=True)
class Answer:
    """What the caller of one request saw."""

    ttft_ms: float
    token_ids: tuple[int, ...]
    usage: common_pb2.Usage
    model: common_pb2.ModelIdentity
    stages: dict[str, str]
    """Reasons and details of the stages that have any."""


class OwnMesh:
    """Its state lies in `folder` and outlives `down`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._state, self._config = folder / "state", folder / "stagemesh.yaml"
        self._ports = [_free_port(), _free_port()]

    def up(self, config: Mapping[str, Any]) -> None:
        """Start all processes and wait until they are ready."""
        self._config.write_text(yaml.safe_dump(dict(config)))
        grpc_port, http_port = map(str, self._ports)
        where = ("--config", str(self._config), "--grpc-port", grpc_port, "--http-port", http_port)
        self._command("up", "--detach", "--wait", *where)

    def down(self) -> None:
        """Drain and end all processes, embedded servers included."""
        self._command("down")

    @property
    def http_url(self) -> str:
        return f"http://127.0.0.1:{self._ports[1]}"

    @property
    def grpc_address(self) -> str:
        return f"127.0.0.1:{self._ports[0]}"

    def pid(self, name: str) -> int:
        """Of a process; 0 while it does not run."""
        record = json.loads((self._state / "mesh.json").read_text())
        return next((int(process["pid"]) for process in record["processes"] if process["name"] == name), 0)

    def wait_ready(self, seconds: float) -> None:
        """Wait until all processes are ready."""

        def is_ready() -> bool:
            record = json.loads((self._state / "mesh.json").read_text())
            return all(process["state"] == "ready" for process in record["processes"])

        wait_until(is_ready, seconds, "the mesh is ready")

    @contextmanager
    def gateway(self) -> Iterator[gateway_pb2_grpc.GatewayServiceStub]:
        with grpc.insecure_channel(f"127.0.0.1:{self._ports[0]}") as channel:
            yield gateway_pb2_grpc.GatewayServiceStub(channel)

    def session(self, session_id: str, model: common_pb2.ModelIdentity) -> cache_pb2.OpenSessionResponse:
        """What the cache service knows of a session, and a lease as a gateway gets it."""
        record = json.loads((self._state / "mesh.json").read_text())
        address = next(process["address"] for process in record["processes"] if process["name"] == "cache")
        with grpc.insecure_channel(address) as channel:
            asked = cache_pb2.OpenSessionRequest(tenant_id=TENANT, session_id=session_id, model=model)
            metadata = (("x-mesh-token", record["token"]),)
            found: cache_pb2.OpenSessionResponse = cache_pb2_grpc.CacheServiceStub(channel).OpenSession(
                asked, metadata=metadata, timeout=5
            )
        return found

    def new_tenant(self, tenant_id: str) -> str:
        """Its API key."""
        return self._command("tenant", "create", tenant_id).strip()

    def _command(self, *arguments: str) -> str:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("STAGEMESH_")}
        command = [sys.executable, "-m", "stagemesh.cli.main", *arguments, "--state", str(self._state)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=START_TIMEOUT_S, env=environment, check=False
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(arguments)} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done.stdout


def ask(
    stub: gateway_pb2_grpc.GatewayServiceStub, text: str, *, session_id: str = "", num_output: int, key: str = "dev"
) -> Answer:
    """One user message, answered greedily in at most `num_output` tokens. Raises SystemExit for no whole answer."""
    request = gateway_pb2.InferenceRequest(
        chat=common_pb2.ChatMessages(messages=[common_pb2.ChatMessage(role="user", content=text)]),
        session_id=session_id,
        sampling=common_pb2.SamplingParams(temperature=0, repetition_penalty=1, max_tokens=num_output, seed=1),
    )
    ttft_s, tokens, final = 0.0, list[int](), gateway_pb2.Final()
    started_s = time.perf_counter()
    for response in stub.Generate(gateway_pb2.GenerateRequest(request=request), metadata=_bearer(key), timeout=120):
        if response.event.HasField("delta") and response.event.delta.token_ids:
            ttft_s = ttft_s or time.perf_counter() - started_s
            tokens += response.event.delta.token_ids
        elif response.event.HasField("final"):
            final = response.event.final
    if final.outcome != common_pb2.OUTCOME_COMPLETE or not tokens:
        raise SystemExit(f"an answer is not complete: {final}")
    said = {stage.stage: " ".join(filter(None, (stage.reason, stage.detail))) for stage in final.stages}
    details = {common_pb2.Stage.Name(stage): words for stage, words in said.items() if words}
    return Answer(1e3 * ttft_s, tuple(tokens), final.usage, final.model, details)


def _bearer(key: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key}"),)


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until it holds. Raises SystemExit after `seconds`."""
    give_up_at_s = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > give_up_at_s:
            raise SystemExit(f"{what}: not within {seconds:g} s")
        time.sleep(POLL_S)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
