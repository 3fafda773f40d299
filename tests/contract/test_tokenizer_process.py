"""The tokenizer as a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from quality_support import free_port

from stagemesh.models.store import ModelFiles

COMMAND = [sys.executable, "-m", "services.tokenizer"]


def test_a_model_that_was_not_pulled_ends_the_process_with_what_to_do(tmp_path: Path) -> None:
    environment = os.environ | {"STAGEMESH_MODEL_DIR": str(tmp_path), "STAGEMESH_TOKENIZER__LISTEN": "127.0.0.1:0"}
    ended = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 78
    assert "stagemesh model pull smollm2-135m-instruct" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_it_becomes_ready_and_ends_cleanly_on_sigterm(default_model_files: ModelFiles) -> None:
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        COMMAND, env=os.environ | {"STAGEMESH_TOKENIZER__LISTEN": address}, stderr=subprocess.PIPE, text=True
    )
    try:
        with grpc.insecure_channel(address) as channel:
            request = health_pb2.HealthCheckRequest(service="stagemesh.api.tokenizer.v1.TokenizerService")
            states = health_pb2_grpc.HealthStub(channel).Watch(request, timeout=60, wait_for_ready=True)
            assert any(state.status == health_pb2.HealthCheckResponse.SERVING for state in states)
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert '"stopped"' in log
