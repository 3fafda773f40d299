"""A mesh for tests, driven as a user drives it: through the `stagemesh` command, gRPC and HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import grpc
import openai
import yaml

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc

PATIENT = {
    "cache": {
        "redis_budget_ms": 1_000,
        "session_budget_ms": 2_000,
        "commit_budget_ms": 2_000,
        "kv": {"lookup_budget_ms": 1_000},
        "knowledge": {"search_budget_ms": 5_000},
    },
    "gateway": {"cache_timeout_s": 2.0, "session_timeout_s": 4.0, "knowledge": {"timeout_s": 8.0}},
}
"""Budgets for machines that are busy with tests, where a call on time would otherwise depend on the scheduler."""

AUTH = (("authorization", "Bearer dev"),)
START_TIMEOUT_S = 150


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll `condition` until it holds. Fails with `what` when it does not in time."""
    give_up_at_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < give_up_at_s, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the keys of `over` set, group by group."""
    both = dict(base)
    for key, value in over.items():
        both[key] = merged(both.get(key, {}), value) if isinstance(value, Mapping) else value
    return both


class Mesh:
    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None, *, engines: int = 1) -> None:
        self.state = folder / "state"
        self._config = folder / "stagemesh.yaml"
        self._config.write_text(yaml.safe_dump(merged(PATIENT, config or {})))
        self._engines = engines
        self.grpc_port, self.http_port = free_port(), free_port()
        self._openai: dict[str, openai.OpenAI] = {}

    def command(self, *arguments: str, check: bool = True, timeout_s: float = 180) -> subprocess.CompletedProcess[str]:
        """Run `stagemesh …` on this mesh."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("STAGEMESH_")}
        command = [sys.executable, "-m", "stagemesh.cli.main", *arguments, "--state", str(self.state)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, env=environment, check=False)
        assert not check or done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def up(self) -> None:
        self.command(
            *("up", "--detach", "--wait", "--config", str(self._config), "--engines", str(self._engines)),
            *("--grpc-port", str(self.grpc_port), "--http-port", str(self.http_port)),
            timeout_s=START_TIMEOUT_S,
        )

    def down(self) -> None:
        while self._openai:
            self._openai.popitem()[1].close()
        self.command("down")

    def status(self) -> dict[str, dict[str, Any]]:
        """Processes by name."""
        report = json.loads(self.command("status", "--json", check=False).stdout)
        return {process["name"]: process for process in report["processes"]}

    def is_ready(self) -> bool:
        return all(process["state"] == "ready" for process in self.status().values())

    def kill(self, name: str) -> int:
        """kill -9 one process; gives the PID it had."""
        pid: int = self.status()[name]["pid"]
        os.kill(pid, signal.SIGKILL)
        return pid

    def secret(self) -> str:
        """The mesh token, as internal services get it."""
        found = json.loads((self.state / "mesh.json").read_text())
        token: str = found["token"]
        return token

    def openai(self, api_key: str = "dev") -> openai.OpenAI:
        """The client with this key; it lives until the mesh goes down."""
        if api_key not in self._openai:
            base_url = f"http://127.0.0.1:{self.http_port}/v1"
            self._openai[api_key] = openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=90)
        return self._openai[api_key]

    def channel(self) -> grpc.aio.Channel:
        """A channel to the gateway for use in the current event loop."""
        return grpc.aio.insecure_channel(f"127.0.0.1:{self.grpc_port}")


def ask(text: str, **fields: Any) -> gateway_pb2.InferenceRequest:
    """A greedy request with one user message."""
    sampling = {"temperature": 0, "repetition_penalty": 1, "max_tokens": 24, **fields.pop("sampling", {})}
    messages = [common_pb2.ChatMessage(role="user", content=text)]
    return gateway_pb2.InferenceRequest(
        chat=common_pb2.ChatMessages(messages=messages),
        sampling=common_pb2.SamplingParams(**sampling),
        **fields,
    )


async def complete(
    stub: gateway_pb2_grpc.GatewayServiceStub, request: gateway_pb2.InferenceRequest, timeout_s: float = 90
) -> gateway_pb2.Final:
    response = await stub.Complete(gateway_pb2.CompleteRequest(request=request), metadata=AUTH, timeout=timeout_s)
    return response.final
