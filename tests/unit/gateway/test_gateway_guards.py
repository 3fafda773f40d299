"""Admission by rate, utilization and temperature, with clocks and readings of the tests' own."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.engine.sensors import DeviceSensors
from services.gateway.http.failures import failure_of
from services.gateway.http.rate_headers import rate_headers
from services.gateway.rates.config import GuardsConfig, HeatConfig, RateConfig
from services.gateway.rates.guards import EngineReading, Guards
from services.gateway.rates.heat import Heat
from services.gateway.rates.rate import Rate, Window, own_share
from services.gateway.rates.tenant_rates import MAX_TENANTS, TenantRates
from services.gateway.rates.utilization import Utilization
from stagemesh.runtime.errors import to_status


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def send(rate: Rate, num_requests: int) -> int:
    """How many of them are let in at this moment."""
    let_in = 0
    for _ in range(num_requests):
        if rate.wait_s() == 0:
            rate.take()
            let_in += 1
    return let_in


SMALL = RateConfig(floor_per_s=2.0, ceiling_per_s=10.0)


def test_a_new_limit_is_its_floor_and_lets_a_burst_of_ten_seconds_in(clock: Clock) -> None:
    rate = Rate(SMALL, clock)
    assert rate.limit_per_s == 2.0
    assert send(rate, 100) == 20
    assert rate.wait_s() == 0.5
    clock.now_s += 0.5
    assert send(rate, 100) == 1


def test_the_limit_is_the_mean_of_the_last_minute_times_1_3_and_set_anew_every_ten_seconds(clock: Clock) -> None:
    rate = Rate(SMALL, clock)
    for _ in range(59):
        clock.now_s += 1
        send(rate, 2)
    assert rate.limit_per_s == pytest.approx(98 / 60 * 1.3)  # as ten seconds ago
    clock.now_s += 1
    rate.wait_s()
    assert rate.limit_per_s == pytest.approx(118 / 60 * 1.3)
    clock.now_s += 9.9
    rate.wait_s()
    assert rate.limit_per_s == pytest.approx(118 / 60 * 1.3)


def test_under_steady_demand_the_limit_rises_to_its_ceiling_and_falls_to_its_floor_afterwards(clock: Clock) -> None:
    rate = Rate(SMALL, clock)
    for _ in range(3_600):
        clock.now_s += 1
        send(rate, 50)
    assert rate.limit_per_s == 10.0
    clock.now_s += 70
    rate.wait_s()
    assert rate.limit_per_s == 2.0


@given(
    steps=st.lists(st.tuples(st.floats(0, 30), st.integers(0, 60)), max_size=60),
    floor=st.floats(0.5, 5),
    spread=st.floats(1, 20),
)
def test_whatever_comes_the_limit_stays_between_floor_and_ceiling_and_no_more_is_let_in(
    steps: list[tuple[float, int]], floor: float, spread: float
) -> None:
    clock, config = Clock(), RateConfig(floor_per_s=floor, ceiling_per_s=floor * spread)
    rate, began_s, let_in = Rate(config, clock), clock.now_s, 0
    for pause_s, num_requests in steps:
        clock.now_s += pause_s
        let_in += send(rate, num_requests)
        assert config.floor_per_s <= rate.limit_per_s <= config.ceiling_per_s
        most_ever = config.ceiling_per_s * (clock.now_s - began_s + config.refresh_s) + 1
        assert let_in <= most_ever
        assert 0 <= rate.state().remaining <= rate.state().limit
        assert len(rate._admitted) <= config.window_s + 1 + 30


def test_a_tenant_at_its_limit_is_refused_with_a_time_and_leaves_room_for_others(clock: Clock) -> None:
    rates = TenantRates(RateConfig(floor_per_s=100), SMALL, clock)
    for _ in range(20):
        assert rates.refusal("greedy") is None
    refusal = rates.refusal("greedy")
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after_ms) == ("RATE_LIMITED", 500)
    assert rates.refusal("modest") is None
    assert rates.state("greedy").remaining == 0
    assert rates.state("modest").remaining == 19


def test_all_tenants_together_have_a_limit_too(clock: Clock) -> None:
    rates = TenantRates(SMALL, RateConfig(floor_per_s=100), clock)
    refusals = [rates.refusal(f"tenant-{i}") for i in range(21)]
    assert [refusal is None for refusal in refusals] == [True] * 20 + [False]
    assert "all tenants" in str(refusals[-1])


def test_of_very_many_tenants_the_least_recent_are_forgotten(clock: Clock) -> None:
    rates = TenantRates(RateConfig(floor_per_s=10_000), SMALL, clock)
    for i in range(MAX_TENANTS + 5):
        rates.refusal(f"tenant-{i}")
    assert len(rates._tenants) == MAX_TENANTS


def test_a_refusal_carries_its_time_over_grpc_and_http(clock: Clock) -> None:
    rates = TenantRates(SMALL, RateConfig(floor_per_s=0.1), clock)
    rates.refusal("t")
    refusal = rates.refusal("t")
    assert refusal is not None
    kinds = [detail.type_url.rpartition(".")[2] for detail in to_status(refusal).details]
    assert kinds == ["ErrorInfo", "RetryInfo"]
    failure = failure_of(refusal)
    assert (failure.status, failure.headers["retry-after"]) == (429, "10")
    assert failure.body["error"]["type"] == "rate_limit_error"
    headers = rate_headers(rates.state("t"))
    assert headers == {
        "x-ratelimit-limit-requests": "1",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "10.000s",
    }


def test_utilization_is_a_mean_over_time_and_not_over_reports(clock: Clock) -> None:
    utilization = Utilization(60, clock)
    utilization.observe(4.0)
    clock.now_s += 30
    for _ in range(100):
        utilization.observe(0.0)
    assert utilization.mean() == pytest.approx(2.0)
    clock.now_s += 30
    assert utilization.mean() == pytest.approx(2.0)
    clock.now_s += 15
    assert utilization.mean() == pytest.approx(1.0)
    clock.now_s += 60
    utilization.observe(0.0)
    assert utilization.mean() == 0.0


def test_an_overload_says_when_it_will_be_over_if_nothing_more_comes(clock: Clock) -> None:
    utilization = Utilization(60, clock)
    utilization.observe(4.0)
    clock.now_s += 60
    assert utilization.retry_after_s(2.0) == pytest.approx(30)
    utilization.observe(0.0)
    clock.now_s += 30
    assert utilization.retry_after_s(2.0) == pytest.approx(0, abs=1e-6)


def test_a_hot_device_gets_a_fifth_less_then_two_fifths_then_nothing_and_all_of_it_back(clock: Clock) -> None:
    heat, shares = Heat(HeatConfig(), clock), []
    for celsius in (70, 83, 85, 86, 90, 90, 81, 79, 79, 79, 79):
        heat.observe(celsius)
        shares.append(heat.share)
        clock.now_s += 10
    assert shares == [1.0, 0.8, 0.6, 0.0, 0.0, 0.0, 0.0, 0.6, 0.8, 1.0, 1.0]


def test_readings_within_one_step_move_it_once(clock: Clock) -> None:
    heat = Heat(HeatConfig(), clock)
    for _ in range(9):
        heat.observe(95.0)
        clock.now_s += 1
    assert heat.share == 0.8


def test_a_device_near_the_threshold_keeps_its_step(clock: Clock) -> None:
    heat = Heat(HeatConfig(), clock)
    heat.observe(83.0)
    for _ in range(10):
        clock.now_s += 10
        heat.observe(82.0)
    assert heat.share == 0.8


def test_without_a_sensor_nothing_is_known_against_a_device(clock: Clock) -> None:
    heat = Heat(HeatConfig(), clock)
    heat.observe(95.0)
    heat.observe(None)
    assert heat.share == 1.0


@given(readings=st.lists(st.tuples(st.one_of(st.none(), st.floats(20, 110)), st.floats(0, 25)), max_size=80))
def test_the_share_is_always_one_of_four_and_moves_one_step_at_a_time(
    readings: list[tuple[float | None, float]],
) -> None:
    clock = Clock()
    heat, order = Heat(HeatConfig(), clock), [1.0, 0.8, 0.6, 0.0]
    for celsius, pause_s in readings:
        before = order.index(heat.share)
        heat.observe(celsius)
        assert celsius is None or abs(order.index(heat.share) - before) <= 1
        clock.now_s += pause_s


def reading(instance: str = "engine-1", *, in_flight: int = 0, celsius: float | None = None) -> EngineReading:
    return EngineReading(instance=instance, in_flight=in_flight, max_running=10, celsius=celsius)


def heated(clock: Clock, steps: int) -> Guards:
    guards = Guards(GuardsConfig(), clock)
    for _ in range(steps):
        guards.observe([reading(celsius=90.0)])
        clock.now_s += 10
    return guards


@pytest.mark.parametrize(("steps", "most"), [(0, 99), (1, 8), (2, 6), (3, 0)])
def test_an_engine_takes_as_many_sequences_as_its_heat_allows(clock: Clock, steps: int, most: int) -> None:
    guards = heated(clock, steps)
    if most:
        assert guards.refusal("t", [reading(in_flight=most - 1)]) is None
    if most < 99:
        refusal = guards.refusal("t", [reading(in_flight=most)])
        assert refusal is not None
        assert (refusal.reason, refusal.retry_after_ms) == ("DEVICE_TOO_HOT", 10_000)


def test_a_cool_engine_beside_a_hot_one_takes_the_work(clock: Clock) -> None:
    guards = heated(clock, 3)
    assert guards.refusal("t", [reading(), reading("engine-2")]) is None


def test_engines_with_too_much_work_over_a_minute_refuse_until_it_is_done(clock: Clock) -> None:
    guards = Guards(GuardsConfig(max_utilization=2.0), clock)
    guards.observe([reading(in_flight=40)])
    assert guards.refusal("t", [reading(in_flight=40)]) is None  # a spike is no overload
    clock.now_s += 60
    refusal = guards.refusal("t", [reading(in_flight=40)])
    assert refusal is not None
    assert (refusal.reason, refusal.retry_after_ms) == ("ENGINE_OVERLOADED", 30_000)
    assert guards.refusal("t", [reading("engine-2")]) is None


def test_an_engine_that_goes_is_forgotten(clock: Clock) -> None:
    guards = heated(clock, 3)
    assert guards.share("engine-1") == 0.0
    guards.observe([])
    assert guards.share("engine-1") == 1.0


def test_a_refused_request_does_not_count_against_the_rate(clock: Clock) -> None:
    guards = heated(clock, 3)
    before = guards.rate_state("t")
    assert guards.refusal("t", [reading()]) is not None
    assert guards.rate_state("t") == before


class Nvml:
    """The bindings of NVML with two devices."""

    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        pass

    def __init__(self, *readings: float) -> None:
        self.readings: list[Any] = list(readings)
        self.num_reads = 0

    def nvmlDeviceGetCount(self) -> int:
        return len(self.readings)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> float:
        self.num_reads += 1
        if self.readings[handle] is None:
            raise self.NVMLError("lost")
        return float(self.readings[handle])


def test_the_hottest_device_counts_and_is_read_once_a_second(clock: Clock) -> None:
    nvml = Nvml(51, 77)
    sensors = DeviceSensors(nvml, clock)
    assert [sensors.hottest_c() for _ in range(5)] == [77.0] * 5
    assert nvml.num_reads == 2
    nvml.readings = [88, 77]
    clock.now_s += 1
    assert sensors.hottest_c() == 88.0


def test_without_devices_or_with_one_that_is_lost_there_is_no_reading_and_not_zero(clock: Clock) -> None:
    assert DeviceSensors(None, clock).hottest_c() is None
    assert DeviceSensors(Nvml(), clock).hottest_c() is None
    nvml = Nvml(60)
    sensors = DeviceSensors(nvml, clock)
    assert sensors.hottest_c() == 60.0
    nvml.readings = [None]
    clock.now_s += 1
    assert sensors.hottest_c() is None


def exchange(gateways: list[TenantRates]) -> None:
    """What gateways tell each other every ten seconds."""
    told = [rates.windows() for rates in gateways]
    for number, rates in enumerate(gateways):
        others: dict[str, Window] = {}
        for said in (*told[:number], *told[number + 1 :]):
            for tenant, window in said.items():
                others[tenant] = others.get(tenant, Window()) + window
        rates.refresh(others, len(gateways))


def let_in(gateways: list[TenantRates], asked: list[int], clock: Clock, seconds: int) -> list[int]:
    """How many of a tenant's requests each lets in, of so many asked of it a second."""
    counts = [0] * len(gateways)
    for second in range(1, seconds + 1):
        clock.now_s += 1
        for number, (rates, each) in enumerate(zip(gateways, asked, strict=True)):
            counts[number] += sum(rates.refusal("t") is None for _ in range(each))
        if second % 10 == 0:
            exchange(gateways)
    return counts


def test_two_gateways_let_in_together_what_one_would(clock: Clock) -> None:
    config = RateConfig(floor_per_s=4.0, ceiling_per_s=8.0)
    of_all = RateConfig(floor_per_s=1_000.0)
    one, two = ([TenantRates(of_all, config, clock) for _ in range(count)] for count in (1, 2))
    let_in(two, [50, 50], clock, 120)
    together = let_in(two, [50, 50], clock, 60)
    let_in(one, [100], clock, 120)
    assert sum(together) == pytest.approx(sum(let_in(one, [100], clock, 60)), rel=0.05)
    assert together[0] == pytest.approx(together[1], rel=0.1)


def test_a_gateway_may_let_in_what_the_other_does_not_use_and_never_nothing(clock: Clock) -> None:
    config = RateConfig(floor_per_s=8.0, ceiling_per_s=8.0)
    gateways = [TenantRates(RateConfig(floor_per_s=1_000.0), config, clock) for _ in range(2)]
    let_in(gateways, [6, 1], clock, 60)
    assert let_in(gateways, [6, 1], clock, 60) == [360, 60]
    let_in(gateways, [50, 0], clock, 60)
    busy, idle = let_in(gateways, [50, 50], clock, 10)
    assert busy <= 8 * 10 * 2
    assert idle > 0, "one that nobody asked lately still has some"


@given(
    limit=st.floats(0.1, 1e4),
    asked=st.lists(st.floats(0, 1e5), min_size=1, max_size=8),
)
def test_the_shares_of_all_gateways_exceed_the_limit_by_no_more_than_their_least_ones(
    limit: float, asked: list[float]
) -> None:
    windows = [Window(asked_per_s=each) for each in asked]
    shares = [
        own_share(limit, own, sum((w for at, w in enumerate(windows) if at != number), Window()), len(windows))
        for number, own in enumerate(windows)
    ]
    assert all(share > 0 for share in shares)
    used = [min(share, each) for share, each in zip(shares, asked, strict=True)]
    assert sum(used) <= limit * 1.25 + 1e-6
