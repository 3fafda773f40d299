"""`stagemesh debug`: a session's requests taken apart by stage, through a whole mesh."""

import json
import time
from typing import Any

import httpx
from mesh_support import Mesh, ask, complete

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2_grpc

NUM_TURNS = 7


def traces(mesh: Mesh, session_id: str, wanted: int) -> list[dict[str, Any]]:
    """They are written shortly after the answers."""
    give_up_at_s = time.monotonic() + 20
    while True:
        said = mesh.command("debug", "--session", session_id, "--last", "10", "--json")
        found: list[dict[str, Any]] = json.loads(said.stdout)["requests"]
        if len(found) >= wanted or time.monotonic() > give_up_at_s:
            return found
        time.sleep(0.2)


async def test_the_last_requests_of_a_session_are_shown_by_stage_against_what_is_usual(mesh: Mesh) -> None:
    session_id, finals = f"debug-{time.time_ns()}", []
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        for i in range(NUM_TURNS):
            request = ask(f"Number {i}?", session_id=session_id, sampling={"max_tokens": 4})
            finals.append(await complete(stub, request))
    found = traces(mesh, session_id, NUM_TURNS)
    assert [each["request_id"] for each in found] == [final.request_id for final in reversed(finals)]
    last, final = found[0], finals[-1]
    ran = [report for report in final.stages if report.status != common_pb2.STAGE_STATUS_SKIPPED]
    assert len(last["stages"]) == len(ran)
    assert last["total_ms"] == final.total_us / 1000
    first = found[-1]  # later turns are longer, and may be of another length class
    assert first["baseline_samples"] >= 5
    assert all(stage["usual_ms"] is not None for stage in first["stages"])
    shown = mesh.command("debug", "--session", session_id, "--last", "1").stdout
    assert final.request_id in shown
    assert "attend" in shown


def test_the_shares_of_the_last_hour_are_metrics(mesh: Mesh) -> None:
    text = httpx.get(f"http://127.0.0.1:{mesh.http_port}/metrics").text
    for name in ("degraded_ratio", 'stage_failure_rate{stage="tokenize"}', 'breaker_state{part="ledger"}'):
        assert f"stagemesh_{name}" in text
    assert "stagemesh_deferral_lag_seconds 0.0" in text


def test_a_session_of_which_nothing_is_kept_is_said_so(mesh: Mesh) -> None:
    done = mesh.command("debug", "--session", "nobody", check=False)
    assert (done.returncode, "nothing is kept" in done.stderr) == (4, True)
