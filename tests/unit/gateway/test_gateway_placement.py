"""Which engine a sequence goes to."""

from __future__ import annotations

from typing import Any

from services.gateway.kv_reports import kv_report
from services.gateway.placement import MUCH_BUSIER_TOKENS, Placement, SessionEngines, choose, describe
from services.gateway.prefix_engines import PrefixEngines
from stagemesh.api.common.v1.common_pb2 import KvReport, Usage
from stagemesh.api.engine.v1 import engine_pb2


class Link:
    """An engine that is up."""

    def __init__(self, address: str, tokens: int = 0) -> None:
        self.address = address
        self.in_flight_tokens = tokens
        self.description = engine_pb2.DescribeResponse(instance=f"engine-{address}")


def links(**tokens: int) -> Any:
    return [Link(address, busy) for address, busy in tokens.items()]


def test_the_engine_that_served_a_session_gets_it_again_unless_it_is_much_busier() -> None:
    for busy, expected in ((0, "a"), (MUCH_BUSIER_TOKENS, "a"), (MUCH_BUSIER_TOKENS + 1, "b")):
        assert choose(links(a=busy, b=0), "a").address == expected


def test_without_a_preference_the_less_busy_of_two_is_taken() -> None:
    assert {choose(links(a=5, b=3)).address for _ in range(20)} == {"b"}
    assert choose(links(a=5)).address == "a"


def test_an_engine_that_is_gone_is_no_reason_to_wait() -> None:
    assert choose(links(b=3), "a").address == "b"


def test_the_choice_is_said_in_words() -> None:
    (a, b) = links(a=0, b=0)
    assert describe(a, "a") == "engine-a served the session last"
    assert describe(b, "a") == "engine-b instead of a busier one that served the session last"
    assert describe(b, "") == "engine-b"


def test_sessions_are_remembered_by_tenant_and_the_oldest_are_forgotten() -> None:
    sessions = SessionEngines(max_sessions=2)
    sessions.served("t", "s", Placement(address="a"))
    assert sessions.last("other", "s") == ""
    sessions.served("t", "s2", Placement(address="b"))
    sessions.served("t", "s", Placement(address="c"))
    sessions.served("t", "s3", Placement(address="d"))
    sessions.served("t", "", Placement(address="e"))
    assert [sessions.last("t", name) for name in ("s", "s2", "s3", "")] == ["c", "", "d", ""]


def test_a_prompt_goes_where_its_longest_known_beginning_was_computed() -> None:
    prefixes = PrefixEngines()
    history = list(range(5_000))
    prefixes.served("t", history[:1_500], Placement(address="a"))
    prefixes.served("t", history, Placement(address="b"))
    for tokens, expected in ((history, ("b", 4096)), (history[:2_000], ("b", 1024)), (history[:300], ("b", 256))):
        placement = Placement()
        prefixes.prefer("t", [*tokens, 7], placement)
        assert (placement.preferred, placement.slack_tokens) == expected
    for tenant, tokens in (("other", history), ("t", history[:255]), ("t", history[1:])):
        placement = Placement()
        prefixes.prefer(tenant, tokens, placement)
        assert placement == Placement()
    held = Placement(preferred="session")
    prefixes.prefer("t", history, held)
    assert held.preferred == "session"


def test_beginnings_that_were_not_seen_for_long_are_forgotten() -> None:
    prefixes = PrefixEngines(max_remembered=2)
    for number in range(3):
        prefixes.served("t", [number] * 300, Placement(address="a"))
    placements = [Placement() for _ in range(3)]
    for number, placement in enumerate(placements):
        prefixes.prefer("t", [number] * 300, placement)
    assert [placement.preferred for placement in placements] == ["", "a", "a"]


def test_a_prompt_waits_no_longer_than_computing_its_beginning_anew_takes() -> None:
    assert choose(links(a=256, b=0), "a", 256).address == "a"
    assert choose(links(a=257, b=0), "a", 256).address == "b"


def test_an_engine_without_tiers_reports_what_it_reused() -> None:
    plain = engine_pb2.Finish(usage=Usage(cached_tokens=32))
    assert kv_report(plain, 50) == KvReport(pool_tokens=32, computed_tokens=18)
    full = engine_pb2.Finish(kv=KvReport(store_tokens=48, computed_tokens=2))
    assert kv_report(full, 50) == full.kv
