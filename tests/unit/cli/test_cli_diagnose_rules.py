"""What `stagemesh diagnose` makes of what it saw: the right cause first, for each of the faults that it knows."""

import pytest

from stagemesh.cli.diagnose.causes import CAUSES
from stagemesh.cli.diagnose.evidence import EngineEvidence, Evidence, ProcessEvidence, RedisEvidence
from stagemesh.cli.diagnose.machine import configured_hosts
from stagemesh.cli.diagnose.rules import RULES, judge
from stagemesh.runtime.mesh_config import Addresses, MeshConfig


def process(name: str, state: str = "ready", **fields: object) -> ProcessEvidence:
    return ProcessEvidence(name=name, state=state, **fields)  # type: ignore[arg-type]


def engine(instance: str = "engine-1", **fields: object) -> EngineEvidence:
    healthy = {"model": "m", "probe_ms": 100.0, "max_running": 16}
    return EngineEvidence(instance=instance, **{**healthy, **fields})  # type: ignore[arg-type]


HEALTHY = Evidence(
    processes=(process("tokenizer"), process("engine-1"), process("engine-2"), process("gateway")),
    redis=(RedisEvidence(name="ledger Redis", delay_ms=0.3, skew_s=0.01), RedisEvidence(name="KV Redis")),
    engines=(engine(), engine("engine-2")),
    free_bytes=10**10,
)


def seen(**fields: object) -> Evidence:
    return Evidence(**{**vars(HEALTHY), **fields})  # type: ignore[arg-type]


TABLE = {
    "bad config": (seen(config_error="gateway.max_request_bites: unknown key"), "bad_config", "infrastructure"),
    "a service that refuses its config": (
        seen(processes=(process("cache", "failed", reason="cache.kv: bad"),)),
        "bad_config",
        "infrastructure",
    ),
    "an engine that refuses its weights": (
        seen(processes=(process("engine-1", "failed", reason="holds a NaN"),), broken_weights=("m: norm",)),
        "nan_weights",
        "model",
    ),
    "DNS name missing": (seen(missing_names=("addresses.engine: engine.invalid",)), "dns_missing", "network"),
    "port clash before a start": (seen(taken_ports=("127.0.0.1:50051",)), "port_clash", "network"),
    "port clash of a service": (
        seen(processes=(process("cache", "failed", reason="cannot listen on 127.0.0.1:1"),)),
        "port_clash",
        "network",
    ),
    "disk full": (seen(disk_error="/state takes no file: No space left on device"), "disk_full", "infrastructure"),
    "disk nearly full": (seen(free_bytes=1_000_000), "disk_full", "infrastructure"),
    "Redis cannot write": (
        seen(redis=(RedisEvidence(name="ledger Redis", write_error="aof_last_write_status: err"),)),
        "disk_full",
        "infrastructure",
    ),
    "clock skew": (seen(redis=(RedisEvidence(name="ledger Redis", skew_s=-120.0),)), "clock_skew", "infrastructure"),
    "Redis down": (seen(redis=(RedisEvidence(name="ledger Redis", reachable=False),)), "redis_down", "infrastructure"),
    "Redis slow": (seen(redis=(RedisEvidence(name="ledger Redis", delay_ms=90.0),)), "redis_slow", "infrastructure"),
    "broker down": (seen(broker_error="127.0.0.1:9092 does not answer"), "broker_down", "infrastructure"),
    "engine OOM": (seen(engines=(engine(reasons=("OUT_OF_MEMORY",)),)), "engine_oom", "infrastructure"),
    "engine killed for memory": (
        seen(processes=(process("engine-1", "backing off", alive=False, last_words="MemoryError: …"),)),
        "engine_oom",
        "infrastructure",
    ),
    "NaN in a file": (seen(broken_weights=("m: norm", "m: head")), "nan_weights", "model"),
    "NaN weights": (seen(engines=(engine(error="NON_FINITE_LOGITS"),)), "nan_weights", "model"),
    "tokenizer stopped": (
        seen(processes=(process("tokenizer", answers=False, stopped=True),), tokenizer_error="DEADLINE_EXCEEDED"),
        "process_hang",
        "infrastructure",
    ),
    "tokenizer hangs": (seen(tokenizer_error="DEADLINE_EXCEEDED"), "stage_hang", "infrastructure"),
    "a process that keeps ending": (
        seen(processes=(process("differ", "backing off", alive=False, reason="exit code 1"),)),
        "process_down",
        "infrastructure",
    ),
    "queue flood": (seen(gateway_waiting=200), "queue_flood", "infrastructure"),
    "one replica slow": (
        seen(engines=(engine(), engine("engine-2", probe_ms=2_000.0))),
        "replica_slow",
        "infrastructure",
    ),
    "one replica too slow for a probe": (
        seen(engines=(engine(), engine("engine-2", error="DEADLINE_EXCEEDED", probe_ms=0.0))),
        "replica_slow",
        "infrastructure",
    ),
    "hot device": (seen(engines=(engine(celsius=91.0),)), "device_hot", "infrastructure"),
    "another fault of the model": (seen(engines=(engine(error="SAMPLING_FAILED"),)), "model_wrong", "model"),
}


@pytest.mark.parametrize("fault", TABLE)
def test_each_fault_is_named_first_with_its_kind(fault: str) -> None:
    evidence, cause, kind = TABLE[fault]
    verdicts = judge(evidence)
    assert verdicts, fault
    assert (verdicts[0].cause.name, verdicts[0].cause.kind.value) == (cause, kind)
    assert verdicts[0].evidence


def test_a_healthy_mesh_has_no_verdict() -> None:
    assert judge(HEALTHY) == []


def test_the_table_has_every_cause() -> None:
    assert {cause for _, cause, _ in TABLE.values()} == set(CAUSES)


def test_what_follows_from_a_root_stands_behind_it() -> None:
    verdicts = judge(
        seen(
            missing_names=("ledger_url: redis.invalid",),
            redis=(RedisEvidence(name="ledger Redis", reachable=False),),
            processes=(process("gateway", "not ready", answers=False),),
        )
    )
    assert [verdict.cause.name for verdict in verdicts] == ["dns_missing", "redis_down", "process_hang"]


def test_in_a_flood_no_replica_is_called_slow() -> None:
    crowded = (engine(waiting=60), engine("engine-2", probe_ms=5_000.0))
    assert [verdict.cause.name for verdict in judge(seen(engines=crowded))] == ["queue_flood"]


def test_a_single_engine_is_never_a_slow_replica() -> None:
    assert judge(seen(engines=(engine(probe_ms=60_000.0),))) == []


def test_the_same_verdict_is_given_once() -> None:
    found = judge(seen(engines=(engine(error="NON_FINITE_LOGITS", reasons=("NON_FINITE",)),)))
    assert [verdict.cause.name for verdict in found] == ["nan_weights"]


def test_rules_look_only_at_what_they_are_given() -> None:
    assert all(list(rule(Evidence())) == [] for rule in RULES)


def test_hosts_that_are_numbers_are_not_looked_up() -> None:
    mesh = MeshConfig(
        addresses=Addresses(engine=("engine.internal:1",), cache=("10.0.0.1:1",)),
        redis_url="redis://user:secret@ledger.internal:6379/0",
        kafka_bootstrap="kafka-1.internal:9092,[::1]:9092",
    )
    hosts = [host for _, host in configured_hosts(mesh)]
    assert sorted(set(hosts)) == ["engine.internal", "kafka-1.internal", "ledger.internal"]
