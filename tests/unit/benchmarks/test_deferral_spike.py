"""The judgements of benchmarks/deferral_spike.py."""

from dataclasses import replace

from benchmarks.deferral_spike import Spiked, inversions, lag_error_s, make_spike, true_lag_s


def ended(*priorities: int) -> list[Spiked]:
    """Deferred one a second; they ended in this order, one a second, from 100 s on."""
    return [
        Spiked(request_id=str(i), priority=priority, deferred_s=float(i), finished_s=100.0 + i)
        for i, priority in enumerate(priorities)
    ]


def test_the_order_of_priority_has_no_inversions_and_neighbours_may_change_places() -> None:
    assert inversions(ended(3, 2, 2, 1, 0), in_flight=1) == 0
    assert inversions(ended(2, 3, 1, 2, 0), in_flight=2) == 0
    assert inversions(ended(2, 3, 1, 2, 0), in_flight=1) == 2


def test_a_request_that_ended_long_before_its_turn_is_an_inversion() -> None:
    assert inversions(ended(0, 5, 5, 5, 5), in_flight=4) == 1
    assert inversions(ended(0, 5, 5, 5), in_flight=4) == 0


def test_of_equal_priorities_the_older_one_goes_first() -> None:
    requests = [replace(each, deferred_s=10.0 - each.deferred_s) for each in ended(1, 1, 1)]
    assert inversions(requests, in_flight=1) == 2


def test_the_true_lag_is_the_age_of_the_oldest_that_waits() -> None:
    requests = ended(0, 0, 0)
    assert true_lag_s(requests, 99.0) == 99.0
    assert true_lag_s(requests, 100.5) == 99.5
    assert true_lag_s(requests, 200.0) == 0.0


def test_the_metric_may_be_as_old_as_its_slack_and_no_more() -> None:
    requests = ended(0)
    assert lag_error_s(requests, [(50.0, 50.0)], slack_s=1.0) == 0.0
    assert lag_error_s(requests, [(50.0, 49.0)], slack_s=1.0) < 1e-9
    assert round(lag_error_s(requests, [(50.0, 40.0)], slack_s=1.0), 6) == 9.0


def test_a_spike_follows_from_its_seed() -> None:
    assert make_spike(20, 7) == make_spike(20, 7)
    assert len({each.request_id for each in make_spike(500, 1)}) == 500
