"""Requests of every kind for a mesh under faults, each with its own faults on purpose, all from one seed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.runtime.faults import STAGES, Fault, Kind, kinds_of, write_faults

RATE = 0.3
"""Chance of each stage to fail once in a request."""
DELAY_MS = 300
SCHEMA = '{"type":"object","properties":{"city":{"type":"string","maxLength":12}},"required":["city"]}'
TOPICS = ("a bridge", "the sea", "bread", "a clock", "snow", "a ship", "trade", "a garden", "music", "a road")


@dataclass(frozen=True)
class Planned:
    request: gateway_pb2.InferenceRequest
    faults: str
    """For the header; may be empty."""


def planned_requests(count: int, seed: int, *, rate: float = RATE, num_output: int = 16) -> Iterator[Planned]:
    """A third plain, a third with a schema, and a third whose answer must be corrected, so that all stages run."""
    rng = random.Random(seed)
    for number in range(count):
        request = gateway_pb2.InferenceRequest(
            request_id=str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            chat=common_pb2.ChatMessages(messages=[_question(rng, number)]),
            sampling=sampling_of(number, num_output),
            allow_deferral=True,
            resumable=number % 2 == 0,
        )
        if number % 3:
            request.constraint.json_schema = SCHEMA
            request.sampling.max_tokens = max(num_output, 32)
        if number % 3 == 2:
            request.anchors.add(pointer="/city", keys=["Rotterdam"])
        yield Planned(request, write_faults(drawn_faults(rng, rate)))


def sampling_of(number: int, num_output: int) -> common_pb2.SamplingParams:
    """Greedy, seeded, or seeded with penalties, in turn."""
    sampling = common_pb2.SamplingParams(temperature=0, repetition_penalty=1.1, max_tokens=num_output, seed=number + 1)
    if number % 4 in (1, 3):
        sampling.temperature, sampling.top_p = 0.7, 0.9
    if number % 4 == 3:
        sampling.presence_penalty, sampling.frequency_penalty = 0.3, 0.2
    return sampling


def drawn_faults(rng: random.Random, rate: float) -> list[Fault]:
    """Each of the twelve stages with chance `rate`, by any kind but the end of its process."""
    drawn = [stage for stage in STAGES if rng.random() < rate]
    return [_fault(rng, stage) for stage in drawn]


def step_faults(share: float) -> list[dict[str, object]]:
    """Rules for the configuration: one engine step in 1 / `share` fails, by each kind in some stage."""
    kinds = (("embed", "error"), ("attend", "nan"), ("mlp", "nan"), ("norm", "oom"), ("sample", "hang"))
    return [
        {"stage": stage, "kind": kind, "rate": share / len(kinds), "seed": seed}
        for seed, (stage, kind) in enumerate(kinds)
    ]


def _fault(rng: random.Random, stage: str) -> Fault:
    kind = rng.choice([kind for kind in kinds_of(stage) if kind is not Kind.KILL])
    return Fault(stage=stage, kind=kind, times=1, wait_ms=DELAY_MS if kind is Kind.DELAY else 0)


def _question(rng: random.Random, number: int) -> common_pb2.ChatMessage:
    return common_pb2.ChatMessage(role="user", content=f"{number}: Say a word about {rng.choice(TOPICS)}, and a city.")
