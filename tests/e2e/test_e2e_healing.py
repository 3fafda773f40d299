"""Faults on purpose through the gateway: every request ends, and says what healed it."""

from __future__ import annotations

import asyncio

import grpc
import pytest
from mesh_support import AUTH, Mesh, ask

from benchmarks.chaos_client import Caller
from benchmarks.chaos_requests import planned_requests
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.runtime.errors import from_rpc
from stagemesh.runtime.faults import HEADER

DEGRADED = common_pb2.STAGE_STATUS_DEGRADED


async def final_with(mesh: Mesh, faults: str) -> gateway_pb2.Final:
    async with mesh.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)
        request = gateway_pb2.CompleteRequest(request=ask("Say a word.", sampling={"max_tokens": 6}))
        response = await stub.Complete(request, metadata=(*AUTH, (HEADER, faults)), timeout=90)
        return response.final


@pytest.mark.parametrize("kind", ["nan", "error"])
async def test_an_answer_says_which_stage_in_which_layer_was_healed_and_how(mesh: Mesh, kind: str) -> None:
    final = await final_with(mesh, f"attend={kind};layer=7")
    assert final.outcome == common_pb2.OUTCOME_DEGRADED
    (report,) = (report for report in final.stages if report.status == DEGRADED)
    assert (report.stage, report.layer, report.fallback) == (common_pb2.STAGE_ATTEND, 7, "reference")
    assert report.reason == ("NON_FINITE" if kind == "nan" else "STAGE_FAILED")
    assert final.usage.completion_tokens == 6


async def test_what_does_not_fail_again_leaves_no_mark(mesh: Mesh) -> None:
    plain = await final_with(mesh, "")
    faults = "admit=error, tokenize=error, cache=error, mlp=oom, detokenize=error, norm=delay;ms=1"
    healed = await final_with(mesh, faults)
    assert healed.outcome == common_pb2.OUTCOME_COMPLETE
    assert healed.choices[0].text == plain.choices[0].text
    attempts = {report.stage: report.attempts for report in healed.stages}
    assert attempts[common_pb2.STAGE_TOKENIZE] == 2
    assert attempts[common_pb2.STAGE_CACHE] == 2
    assert attempts[common_pb2.STAGE_DETOKENIZE] == 2


async def test_faults_that_say_nothing_are_refused(mesh: Mesh) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await final_with(mesh, "attend=boom")
    assert from_rpc(caught.value).reason == "INVALID_FAULT"


def test_a_layer_that_the_model_lacks_is_refused(mesh: Mesh) -> None:
    refused = mesh.command("chaos", "inject", "attend", "nan", "--layer", "99", check=False)
    assert refused.returncode == 2
    assert "engine-1 has no layer 99: its model has the layers 0 to 29" in refused.stderr
    assert mesh.command("chaos", "list").stdout == "nothing goes wrong on purpose\n"


def test_faults_are_posted_seen_and_cleared_by_the_command(mesh: Mesh) -> None:
    mesh.command("chaos", "inject", "analyze", "error", "--times", "1")
    try:
        assert asyncio.run(final_with(mesh, "")).stages[1].reason == "ANALYSIS_FAILED"
        listed = mesh.command("chaos", "list").stdout
        assert "stage=analyze" in listed
        assert "happened=1" in listed
    finally:
        cleared = mesh.command("chaos", "clear").stdout
    assert cleared == "1 fault taken down\n"


async def test_requests_whose_stages_fail_end_once_with_an_answer(mesh: Mesh) -> None:
    caller = Caller(f"127.0.0.1:{mesh.grpc_port}", deadline_s=60, patience_s=60)
    planned = list(planned_requests(6, seed=3))
    seen = await asyncio.gather(*(caller.ask(plan.request, plan.faults) for plan in planned))
    answered = {common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED}
    assert {one.outcome for one in seen} <= answered, [one.errors for one in seen]
    assert all(one.gaps == 0 and len(one.texts) == 1 for one in seen)
