from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from services.gateway.config import GatewayConfig
from services.gateway.detokenizer import DetokenizerLink
from services.gateway.generation import Generation
from services.gateway.placement import Placement
from services.gateway.stages import ENGINE_STAGES, StageLog
from services.gateway.work import Output
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.tokenizer.v1 import tokenizer_pb2
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.errors import Unavailable
from stagemesh.runtime.identity import Identity


class LoadsForEver:
    async def exchange(self, chunk: tokenizer_pb2.DetokenizeChunk, timeout_s: float) -> tokenizer_pb2.DetokenizedText:
        raise Unavailable("TOKENIZER_STARTING", "the tokenizer is loading its models")

    def forget(self, stream_id: str, model: str) -> None:
        pass


class OneToken:
    async def run(self, *arguments: Any, **options: Any) -> AsyncGenerator[tuple[engine_pb2.SequenceDelta, int]]:
        yield engine_pb2.SequenceDelta(token_ids=[7]), 2


async def test_without_text_the_stages_say_that_the_engine_ran_and_that_detokenize_failed() -> None:
    request = gateway_pb2.InferenceRequest(sampling=common_pb2.SamplingParams(max_tokens=4))
    job: Any = SimpleNamespace(
        tenant_id="t", request_id="r", model="m", request=request, has_constraint=False, route=SimpleNamespace()
    )
    job.route.ttft_target_ms, job.route.max_tokens = 0, 4
    log = StageLog(Identity(instance="gateway-1", generation=1))
    work: Any = SimpleNamespace(job=job, deadline=Deadline.after(30), log_stages=log, publish_delta=None, running=None)
    prompt: Any = SimpleNamespace(
        token_ids=[1], model=common_pb2.ModelIdentity(), context_length=64, mode=0, placement=Placement()
    )
    prompt.lease = SimpleNamespace(salt=b"", HasField=lambda name: False)
    peers: Any = SimpleNamespace(detokenizer=cast("DetokenizerLink", LoadsForEver()), engines=OneToken())
    generation = Generation(work, prompt, peers, GatewayConfig(tokenizer_wait_s=0.2))
    with pytest.raises(Unavailable) as caught:
        await generation.run(Output(index=0))
    assert caught.value.reason == "TOKENIZER_UNAVAILABLE"
    reports = {report.stage: report for report in log.in_order()}
    assert {reports[stage].status for stage in ENGINE_STAGES} == {common_pb2.STAGE_STATUS_OK}
    assert {reports[stage].attempts for stage in ENGINE_STAGES} == {2}
    failed = reports[common_pb2.STAGE_DETOKENIZE]
    assert (failed.status, failed.reason) == (common_pb2.STAGE_STATUS_FAILED, "TOKENIZER_UNAVAILABLE")
