"""The breaker against a model of it, step by step, with a clock of the test's own."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stagemesh.runtime.breaker import Breaker, BreakerConfig, State


class BreakerMachine(RuleBasedStateMachine):
    """The model: consecutive failures, when the breaker opened, and since when a probe is under way."""

    @initialize(threshold=st.integers(1, 4), open_s=st.floats(0.5, 5.0))
    def begin(self, threshold: int, open_s: float) -> None:
        self.now_s = 100.0
        self.threshold, self.open_s = threshold, open_s
        self.breaker = Breaker(BreakerConfig(failure_threshold=threshold, open_s=open_s), lambda: self.now_s)
        self.failures, self.opened_s = 0, 0.0
        self.probe_s: float | None = None
        self.calls_while_open = 0

    def expected(self) -> State:
        if self.failures < self.threshold:
            return State.CLOSED
        return State.HALF_OPEN if self.now_s - self.opened_s >= self.open_s else State.OPEN

    def is_probing(self) -> bool:
        return self.probe_s is not None and self.now_s - self.probe_s < self.open_s

    @rule(seconds=st.floats(0.0, 6.0))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    @rule()
    def call(self) -> None:
        state, probing = self.expected(), self.is_probing()
        allowed = self.breaker.call()
        assert allowed == (state is State.CLOSED or (state is State.HALF_OPEN and not probing))
        if allowed and state is State.HALF_OPEN:
            self.probe_s = self.now_s
            assert not self.breaker.call(), "only one probe at a time"

    @rule()
    def succeed(self) -> None:
        self.breaker.succeeded()
        self.failures, self.probe_s = 0, None
        assert self.breaker.state is State.CLOSED

    @rule()
    def fail(self) -> None:
        self.breaker.failed()
        self.failures, self.probe_s = self.failures + 1, None
        if self.failures >= self.threshold:
            self.opened_s = self.now_s
            assert self.breaker.state is State.OPEN

    @rule()
    def a_look_takes_nothing(self) -> None:
        assert self.breaker.can_call() == self.breaker.can_call()

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        if hasattr(self, "breaker"):
            assert self.breaker.state is self.expected()
            assert self.breaker.state is not State.OPEN or not self.breaker.can_call()

    def teardown(self) -> None:
        """However it ended: after its time a probe is let through, and its success closes it."""
        if hasattr(self, "breaker"):
            self.now_s += 2 * self.open_s
            assert self.breaker.call()
            self.breaker.succeeded()
            assert self.breaker.state is State.CLOSED


TestBreaker = BreakerMachine.TestCase
TestBreaker.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
