"""What the benchmark of chaos counts, and what it asks for."""

from __future__ import annotations

from benchmarks import chaos_hangs
from benchmarks.chaos import KEYS, is_doubled, pause_ms, summary
from benchmarks.chaos_client import Seen
from benchmarks.chaos_requests import planned_requests, step_faults
from benchmarks.guard_cost import main as guard_cost
from stagemesh.api.common.v1 import common_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.faults import STAGES, Kind, parse_faults
from stagemesh.runtime.faults.rule import FaultRule

COMPLETE, DEGRADED = common_pb2.OUTCOME_COMPLETE, common_pb2.OUTCOME_DEGRADED


def seen(*outcomes: int, **fields: object) -> Seen:
    return Seen("id", accepted=True, outcomes=list(outcomes), seconds=1.0, **fields)  # type: ignore[arg-type]


def test_each_request_ends_in_one_count() -> None:
    everyone = [
        seen(COMPLETE, COMPLETE, texts={"a"}),
        seen(DEGRADED),
        seen(COMPLETE, was_deferred=True),
        seen(),
        Seen("never accepted"),
        seen(COMPLETE, DEGRADED),
        seen(COMPLETE, texts={"a", "b"}),
        seen(common_pb2.OUTCOME_EXPIRED),
    ]
    found = summary(everyone)
    assert found["requests"] == 8
    assert (found["complete"], found["degraded"], found["other"]) == (3, 2, 1)
    assert (found["deferred_delivered"], found["lost"], found["never_accepted"], found["doubled"]) == (1, 1, 1, 2)
    assert found["success_percent"] == 50.0
    assert set(found) >= set(KEYS) - {"fault_rate", "migrated_streams", "migration_pause_p99_ms", "breaker_seconds"}


def test_tokens_that_come_twice_are_doubled() -> None:
    assert is_doubled(seen(COMPLETE, gaps=1))
    assert not is_doubled(seen(COMPLETE, COMPLETE))


def test_the_pause_is_the_longest_after_the_kill() -> None:
    assert round(pause_ms(seen(delta_times_s=[1.0, 5.0, 5.1, 6.0, 6.2]), 5.5)) == 900
    assert pause_ms(seen(delta_times_s=[1.0]), 0.0) == 0.0


def test_each_stage_fails_in_three_of_ten_requests_by_every_kind_but_the_end_of_its_process() -> None:
    faults = [fault for plan in planned_requests(1_000, 6) for fault in parse_faults(plan.faults)]
    for stage in STAGES:
        assert 250 < sum(fault.stage == stage for fault in faults) < 350, stage
    assert {fault.kind for fault in faults} == set(Kind) - {Kind.KILL}
    assert all(fault.times == 1 for fault in faults)
    assert [plan.faults for plan in planned_requests(9, 6)] == [plan.faults for plan in planned_requests(9, 6)]


def test_one_step_in_twenty_fails_besides() -> None:
    rules = [FaultRule(**rule) for rule in step_faults(0.05)]  # type: ignore[arg-type]  as the file has them
    assert round(sum(rule.rate for rule in rules), 6) == 0.05


def test_the_cost_of_healing_is_measured(default_model_files: ModelFiles) -> None:
    assert guard_cost(["--turns", "1", "--steps", "2", "--busy", "--json"]) == 0


def test_requests_that_meet_a_hanging_part_need_all_parts_and_are_new_each_time() -> None:
    first, second = list(chaos_hangs._requests()), list(chaos_hangs._requests())
    assert len(first) == chaos_hangs.AT_ONCE
    assert all(request.anchors and request.HasField("constraint") for request in first)
    assert not {request.request_id for request in first} & {request.request_id for request in second}


def test_an_answer_did_without_a_part_where_its_stage_says_so() -> None:
    report = common_pb2.StageReport(stage=common_pb2.STAGE_CORRECT, reason="CORRECTOR_UNAVAILABLE")
    assert chaos_hangs._is_missing(Seen("r", stages=[report]), "corrector")
    report.reason = "NOT_CORRECTED"
    assert not chaos_hangs._is_missing(Seen("r", stages=[report]), "corrector")
