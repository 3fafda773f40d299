"""The scheduler as a whole, simulated with a clock that steps move."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.block_manager import BlockManager
from services.engine.page_table import Owner
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import Scheduler
from services.engine.scheduling.page_watermark import PageWatermark
from services.engine.scheduling.policy import Policy, PolicyLimits
from services.engine.scheduling.prompt_shares import MAX_OWED_S, MIN_CHUNK
from services.engine.sequence import Sequence

TOKEN_S, DEPTH_S, STEP_S, ROW_S = 0.0008, 0.0002, 0.004, 0.001
MAX_STEP_S = 0.06


@dataclass
class Simulation:
    """Steps take what a model of their cost says; sequences of one output token, or more."""

    num_pages: int = 4000
    max_running: int = 32
    max_step_s: float = MAX_STEP_S
    now_s: float = 0.0
    first_token_s: dict[str, float] = field(default_factory=dict)
    step_seconds: list[float] = field(default_factory=list)
    arrivals: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = PolicyLimits(max_step_s=self.max_step_s, high_watermark=0.92)
        watermark = PageWatermark(self.num_pages, self.max_running, limits.high_watermark)
        self.policy = Policy(limits, watermark, lambda: self.now_s)
        self.blocks = BlockManager(self.num_pages)
        self.scheduler = Scheduler(self.blocks, max_running=self.max_running, policy=self.policy)

    def add(
        self,
        name: str,
        num_prompt: int,
        *,
        tenant: str = "t",
        num_output: int = 1,
        within_s: float = 0,
        num_delivered: int = 0,
    ) -> Sequence:
        sequence = Sequence(
            sequence_id=name,
            owner=Owner(tenant, b""),
            tokens=[1] * (num_prompt + num_delivered),
            num_prompt=num_prompt,
            num_delivered=num_delivered,
            params=SamplingParams(temperature=0.0),
            max_total_tokens=num_prompt + num_output,
            deadline_s=self.now_s + within_s if within_s else float("inf"),
            arrived_s=self.now_s,
        )
        self.arrivals[name] = self.now_s
        self.policy.arrived(sequence, 0)
        self.scheduler.add(sequence)
        return sequence

    def step(self) -> float:
        """What it took."""
        items = self.scheduler.plan(512)
        if not items:
            self.now_s += 0.001
            return 0.0
        num_decoding = sum(not item.is_prompt for item in items)
        seconds = STEP_S + ROW_S * num_decoding
        for item in items:
            if item.is_prompt:
                depth = item.start + item.num_tokens / 2
                seconds += item.num_tokens * (TOKEN_S + DEPTH_S * depth / 1024)
        self.now_s += seconds
        for item in items:
            sequence = item.sequence
            if item.samples:
                sequence.tokens.append(1)
                if sequence.num_output == 1:
                    self.first_token_s[sequence.sequence_id] = self.now_s - self.arrivals[sequence.sequence_id]
                    self.policy.first_token(sequence, self.now_s)
            self.scheduler.completed(item)
        self.policy.measured(seconds, items)
        for item in items:
            if len(item.sequence.tokens) >= item.sequence.max_total_tokens:
                self.scheduler.remove(item.sequence)
                self.policy.left(item.sequence)
        self.step_seconds.append(seconds)
        return seconds

    def run(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.step()


def p99(values: list[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


def short_times(simulation: Simulation, count: int) -> list[float]:
    """First tokens of short requests that come one after another."""
    for number in range(count):
        name = f"short-{number}-{simulation.now_s:.6f}"
        simulation.add(name, 30 + 7 * number % 99, num_output=8)
        while name not in simulation.first_token_s:
            simulation.step()
        simulation.run(0.011 * (number % 17))
    return [seconds for name, seconds in simulation.first_token_s.items() if name.startswith("short")]


def test_short_requests_beside_eight_long_prompts_are_at_most_twice_and_a_half_as_late() -> None:
    quiet, busy = Simulation(), Simulation()
    alone = short_times(quiet, 200)
    for number in range(8):
        busy.add(f"long-{number}", 6000, num_output=200)
    beside = short_times(busy, 200)
    assert p99(beside) <= 2.5 * p99(alone)
    busy.run(120)
    assert {f"long-{number}" for number in range(8)} <= busy.first_token_s.keys(), "they are not starved"


def seconds_until_all_go_on(num_prompt: int, num_delivered: int) -> float:
    """How long sixteen sequences take to their next token, beside sixteen that decode."""
    simulation = Simulation()
    for number in range(16):
        simulation.add(f"here-{number}", 40, num_output=1_000)
    simulation.run(2.0)
    came = [
        simulation.add(f"came-{number}", num_prompt, num_output=1_000, num_delivered=num_delivered)
        for number in range(16)
    ]
    since_s = simulation.now_s
    while any(len(sequence.tokens) == num_prompt + num_delivered for sequence in came):
        simulation.step()
    return simulation.now_s - since_s


def test_streams_of_a_lost_engine_go_on_sooner_than_new_ones_of_their_length_would_begin() -> None:
    assert seconds_until_all_go_on(40, 60) < 0.8 * seconds_until_all_go_on(100, 0)


def test_steps_are_bounded_at_every_depth() -> None:
    simulation = Simulation()
    for number in range(8):
        simulation.add(f"long-{number}", 6000, num_output=50)
    simulation.run(60)
    learnt = simulation.step_seconds[10:]
    assert max(learnt) <= 1.5 * MAX_STEP_S + STEP_S, "prompts have half of the bound beside whatever decodes"


def test_a_stream_of_short_requests_does_not_starve_a_long_one() -> None:
    simulation = Simulation()
    simulation.add("long", 6000)
    number = 0
    while "long" not in simulation.first_token_s and simulation.now_s < 200:
        while len(simulation.scheduler.waiting) < 4:  # more than the engine can do
            simulation.add(f"short-{number}", 128)
            number += 1
        simulation.step()
    alone_s = 6000 * (TOKEN_S + DEPTH_S * 3000 / 1024)
    assert simulation.first_token_s["long"] < 8 * alone_s + 10 * MAX_OWED_S


@settings(deadline=None, max_examples=20)
@given(st.lists(st.tuples(st.integers(1, 3000), st.sampled_from("abc"), st.integers(1, 20)), min_size=1, max_size=25))
def test_whatever_comes_everything_is_answered(requests: list[tuple[int, str, int]]) -> None:
    simulation = Simulation(num_pages=260, max_running=4)
    for number, (num_prompt, tenant, num_output) in enumerate(requests):
        simulation.add(str(number), num_prompt, tenant=tenant, num_output=num_output)
    for _ in range(60_000):
        if not any(True for _ in simulation.scheduler):
            break
        simulation.step()
    assert len(simulation.first_token_s) == len(requests)
    simulation.blocks.check_integrity([])


def test_one_account_does_not_starve_another() -> None:
    simulation = Simulation()
    for number in range(20):
        simulation.add(f"greedy-{number}", 2000, tenant="greedy")
    simulation.run(2)
    for number in range(4):
        simulation.add(f"modest-{number}", 2000, tenant="modest")
    simulation.run(60)
    greedy = sorted(seconds for name, seconds in simulation.first_token_s.items() if name.startswith("greedy"))
    modest = [seconds for name, seconds in simulation.first_token_s.items() if name.startswith("modest")]
    assert len(modest) == 4
    assert max(modest) < greedy[len(greedy) * 3 // 4]


def test_a_tenant_of_short_requests_gets_no_more_than_its_share_in_the_long_run() -> None:
    simulation = Simulation()
    number = 0
    for index in range(6):
        simulation.add(f"long-{index}", 6000, tenant="long")
    while simulation.now_s < 60:
        while len(simulation.scheduler.waiting) < 4:
            simulation.add(f"short-{number}", 128, tenant="short")
            number += 1
        simulation.step()
    served = [simulation.policy.counters.counter(tenant) for tenant in ("long", "short")]
    assert max(served) - min(served) <= simulation.policy.counters.slack_tokens + 1024


def test_a_long_prompt_that_finds_no_pages_does_not_close_the_door_to_short_ones() -> None:
    simulation = Simulation(num_pages=1000)
    for number in range(4):
        simulation.add(f"long-{number}", 6000, num_output=100)  # two fit
    for number in range(60):
        simulation.add(f"short-{number}", 100)
        simulation.run(0.15)
    waited = [seconds for name, seconds in simulation.first_token_s.items() if name.startswith("short")]
    assert len(waited) == 60
    assert max(waited) < 0.5


def test_a_prompt_that_needs_nearly_all_pages_has_its_turn_beside_a_stream_of_short_ones() -> None:
    simulation = Simulation(num_pages=500)
    simulation.add("short", 100, num_output=30)
    simulation.step()
    simulation.add("huge", 7_800)
    number = 0
    while "huge" not in simulation.first_token_s and simulation.now_s < 60:
        while len(simulation.scheduler.waiting) < 3:
            simulation.add(f"short-{number}", 100)
            number += 1
        simulation.step()
    assert "huge" in simulation.first_token_s


def test_what_cannot_come_in_time_is_refused_before_it_is_computed() -> None:
    simulation = Simulation()
    simulation.add("measured", 600)
    simulation.run(1)
    late = simulation.add("late", 6000, within_s=1.0)
    refused = simulation.policy.refusal(late, simulation.scheduler, simulation.now_s, 0.0)
    assert refused is not None
    assert refused.reason == "DEADLINE_UNREACHABLE"
    assert 3000 < refused.retry_after_ms < 20_000
    simulation.scheduler.remove(late)
    easy = simulation.add("easy", 100, within_s=1.0)
    assert simulation.policy.refusal(easy, simulation.scheduler, simulation.now_s, 0.0) is None
    assert simulation.policy.refusal(easy, simulation.scheduler, simulation.now_s, 3.0) is not None, "no place in time"
    assert simulation.policy.refusal_of_waiting(easy, simulation.now_s + 0.99) is not None, "it has waited too long"


def test_before_anything_was_measured_nobody_is_refused() -> None:
    simulation = Simulation()
    late = simulation.add("late", 6000, within_s=0.001)
    assert simulation.policy.refusal(late, simulation.scheduler, simulation.now_s, 9.0) is None


def test_late_first_tokens_make_steps_smaller() -> None:
    simulation = Simulation()
    simulation.add("long", 6000)
    simulation.run(1)
    assert simulation.step() > 0.8 * MAX_STEP_S
    sequence = simulation.add("late", 100)
    for _ in range(10):
        simulation.now_s += 1.0
        sequence.arrived_s = simulation.now_s - 2.0
        simulation.policy.first_token(sequence, simulation.now_s)
        simulation.policy.feedback[0].look(simulation.now_s)
    simulation.scheduler.remove(sequence)
    assert simulation.step() < 0.4 * MAX_STEP_S
    assert simulation.scheduler.running[0].num_computed % MIN_CHUNK == 0
