"""Answers as they enter the gateway, with a real validator and a real corrector behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from quality_support import serving

from services.corrector.config import CorrectorConfig
from services.corrector.service import CorrectorService
from services.gateway import quality
from services.gateway.breakers import StageBreakers
from services.gateway.config import BreakersConfig, GatewayConfig
from services.gateway.stages import StageLog
from services.gateway.work import Output
from services.validator.config import ValidatorConfig
from services.validator.service import ValidatorService
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2_grpc
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.deadline import Deadline
from stagemesh.runtime.identity import Identity
from stagemesh.runtime.mesh_config import MeshConfig

DAY = {"type": "string", "format": "date"}
SCHEMA = {"type": "object", "properties": {"order": {"type": "string"}, "ordered": DAY, "due": DAY}}


@pytest.fixture
async def peers() -> AsyncIterator[Any]:
    slow = {"repair_timeout_ms": 20_000.0}
    async with (
        serving(ValidatorService(ValidatorConfig(check_timeout_ms=20_000.0))) as validator,
        serving(CorrectorService(MeshConfig(), CorrectorConfig(**slow))) as corrector,
    ):
        breakers = StageBreakers(BreakersConfig(), {"validate": validator, "correct": corrector}, {})
        yield SimpleNamespace(
            validator=validator_pb2_grpc.ValidatorServiceStub(validator),
            corrector=corrector_pb2_grpc.CorrectorServiceStub(corrector),
            breakers=breakers,
        )
        await breakers.close()


async def answered(peers: Any, answer: dict[str, Any]) -> tuple[Output, StageLog]:
    request = gateway_pb2.InferenceRequest(
        prompt="Give the order as JSON.", constraint=common_pb2.OutputConstraint(json_schema=json.dumps(SCHEMA))
    )
    job = SimpleNamespace(
        tenant_id="t", request_id="r", request=request, needs_validation=True, has_constraint=True,
        route=SimpleNamespace(max_tokens=64),
    )  # fmt: skip
    log = StageLog(Identity(instance="gateway-1", generation=1))
    work: Any = SimpleNamespace(job=job, deadline=Deadline.after(60), log_stages=log)
    prompt: Any = SimpleNamespace(model=common_pb2.ModelIdentity())
    output = Output(index=0, text=json.dumps(answer))
    config = GatewayConfig(validator_timeout_s=30, corrector_timeout_s=30)
    await quality.ensure(work, prompt, output, peers, config)
    return output, log


async def test_a_date_in_another_form_is_mended_though_the_answer_is_valid(peers: Any) -> None:
    output, log = await answered(peers, {"order": "A-1", "ordered": "4. März 2025", "due": "2025/3/14"})
    assert output.validation is not None
    assert json.loads(output.text) == {"order": "A-1", "ordered": "2025-03-04", "due": "2025-03-14"}
    assert not output.engine_text
    assert (output.validation.valid, output.validation.certain) == (True, True)
    assert [(c.pointer, getattr(c, "from"), c.withheld) for c in output.validation.changes] == [
        ("/ordered", '"4. März 2025"', False),
        ("/due", '"2025/3/14"', False),
    ]
    assert list(output.validation.issues) == []
    assert log.degraded is None


async def test_what_the_corrector_is_not_sure_of_stays_and_the_warning_with_it(peers: Any) -> None:
    answer = {"order": "A-1", "ordered": "03/04/2026", "due": "2026-04-20"}
    output, log = await answered(peers, answer)
    assert output.validation is not None
    assert (output.text, output.engine_text) == (json.dumps(answer), True)
    assert (output.validation.valid, output.validation.certain) == (True, False)
    assert [(c.pointer, c.withheld) for c in output.validation.changes] == [("/ordered", True)]
    [issue] = output.validation.issues
    assert (issue.pointer, issue.rule, issue.severity) == ("/ordered", "format", validator_pb2.SEVERITY_WARNING)
    assert log.degraded is None


async def test_one_sure_change_is_made_beside_one_that_is_not(peers: Any) -> None:
    output, _ = await answered(peers, {"order": "A-1", "ordered": "03/04/2026", "due": "April 20, 2026"})
    assert output.validation is not None
    assert json.loads(output.text) == {"order": "A-1", "ordered": "03/04/2026", "due": "2026-04-20"}
    assert [(c.pointer, c.withheld) for c in output.validation.changes] == [("/ordered", True), ("/due", False)]
    assert [issue.pointer for issue in output.validation.issues if issue.rule == "format"] == ["/ordered"]
    assert not output.validation.certain


async def test_an_answer_that_meets_its_formats_is_not_sent_to_the_corrector(peers: Any) -> None:
    output, log = await answered(peers, {"order": "A-1", "ordered": "2025-03-04"})
    assert output.validation is not None
    assert (output.validation.certain, output.correction) == (True, None)
    assert common_pb2.STAGE_CORRECT not in {r.stage for r in log.in_order() if r.status == common_pb2.STAGE_STATUS_OK}
