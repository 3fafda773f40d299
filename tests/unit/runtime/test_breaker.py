from hypothesis import given
from hypothesis import strategies as st

from stagemesh.runtime.breaker import Breaker, BreakerConfig, State


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def make(threshold: int = 2, open_s: float = 1.0) -> tuple[Breaker, Clock]:
    clock = Clock()
    return Breaker(BreakerConfig(failure_threshold=threshold, open_s=open_s), clock), clock


def test_opens_after_the_threshold_and_refuses() -> None:
    breaker, _ = make()
    breaker.failed()
    assert breaker.call()
    breaker.failed()
    assert breaker.state is State.OPEN
    assert not breaker.call()


def test_half_open_lets_one_probe_through_and_closes_on_success() -> None:
    breaker, clock = make(threshold=1)
    breaker.failed()
    clock.now_s = 1.0
    assert breaker.call()
    assert not breaker.call()
    breaker.succeeded()
    assert breaker.state is State.CLOSED


def test_a_failed_probe_opens_again_for_the_whole_time() -> None:
    breaker, clock = make(threshold=1)
    breaker.failed()
    clock.now_s = 1.0
    assert breaker.call()
    breaker.failed()
    clock.now_s = 1.9
    assert not breaker.call()


def test_a_probe_without_a_verdict_does_not_block_for_ever() -> None:
    breaker, clock = make(threshold=1)
    breaker.failed()
    clock.now_s = 1.0
    assert breaker.call()
    clock.now_s = 2.0
    assert breaker.call()


@given(st.lists(st.sampled_from(["ok", "fail", "wait"])))
def test_it_is_never_open_longer_than_open_s_after_the_last_failure(events: list[str]) -> None:
    breaker, clock = make(threshold=2)
    for event in events:
        if event == "wait":
            clock.now_s += 0.75  # exact in binary, so that sums are
        elif breaker.call():
            breaker.succeeded() if event == "ok" else breaker.failed()
    clock.now_s += 1.0
    assert breaker.can_call()
