"""Large values past the client: what MGET gives, over a real server; hostile replies end in the client's own errors."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import redis
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kv_store_support import wire_to
from quality_support import Valkey, running_valkey

from services.engine.kv.bulk_read import _read_reply, _Reader, read_values
from services.engine.kv.miss_cause import MissCause
from services.engine.kv.store_link import StoreFailed, StoreLink
from stagemesh.runtime.breaker import BreakerConfig

SIZES = (0, 1, 61, 62, 63, 64, 65, 4096, 369_024)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    with running_valkey(tmp_path_factory.mktemp("kv")) as server, server.client() as client:
        for size in SIZES:
            client.set(b"v%d" % size, value_of(size))
        client.lpush("list", "x")
        yield server


@pytest.fixture
def link(valkey: Valkey) -> Iterator[StoreLink]:
    made = StoreLink(valkey.url, BreakerConfig())
    yield made
    made.close()


def value_of(size: int) -> bytes:
    return bytes(at * 7 % 251 for at in range(size))


def test_values_of_all_sizes_and_none_for_what_is_not_there(link: StoreLink) -> None:
    names = [b"v%d" % size for size in SIZES]
    with link.within(10) as client:
        for _ in range(3):
            assert read_values(client, names) == [value_of(size) for size in SIZES]
            assert read_values(client, [b"no", names[-1], b"list", names[0]]) == [None, value_of(SIZES[-1]), None, b""]
            assert client.get(names[3]) == value_of(SIZES[3])  # nothing is left on the connection


def test_a_refusal_is_one_and_the_connection_is_made_anew(valkey: Valkey) -> None:
    with valkey.client() as admin:
        admin.acl_setuser("narrow", enabled=True, passwords=["+pw"], keys=["other:*"], commands=["+mget", "+get"])
    link = StoreLink("redis://narrow:pw@" + valkey.url.rsplit("@", 1)[1], BreakerConfig())
    for _ in range(2):
        with pytest.raises(StoreFailed) as failed, link.within(10) as client:
            read_values(client, [b"v1"])
        assert failed.value.cause is MissCause.STORE_REFUSED
        with link.within(10) as client:
            assert read_values(client, [b"other:1"]) == [None]
    link.close()


@pytest.mark.parametrize("cut_after", [5, 400, 200_000])
def test_a_connection_that_is_cut_within_a_value_is_a_failure_and_the_next_call_works(
    valkey: Valkey, cut_after: int
) -> None:
    with wire_to(valkey) as (wire, url):
        link = StoreLink(url, BreakerConfig())
        with link.within(10) as client:
            assert read_values(client, [b"v1"]) == [value_of(1)]
        wire.cut_after = cut_after
        with pytest.raises(StoreFailed) as failed, link.within(10) as client:
            read_values(client, [b"v369024"])
        assert failed.value.cause is MissCause.STORE_UNAVAILABLE
        wire.cut_after = None
        with link.within(10) as client:
            assert read_values(client, [b"v369024"]) == [value_of(369_024)]
        link.close()


def test_a_value_that_comes_too_late_is_slow(valkey: Valkey) -> None:
    with wire_to(valkey) as (wire, url):
        link = StoreLink(url, BreakerConfig())
        with link.within(10) as client:
            read_values(client, [b"v1"])
        wire.delay_s = 1.0
        with pytest.raises(StoreFailed) as failed, link.within(0.2) as client:
            read_values(client, [b"v369024"])
        assert failed.value.cause is MissCause.STORE_SLOW
        wire.delay_s = 0.0
        link.close()


def read_from(reply: bytes, num_values: int) -> list[memoryview | None]:
    """What a reader makes of a server that says this and closes."""
    near, far = socket.socketpair()
    with near, far:
        sender = threading.Thread(target=lambda: (far.sendall(reply), far.shutdown(socket.SHUT_WR)))
        sender.start()
        try:
            return _read_reply(_Reader(near), num_values)
        finally:
            near.shutdown(socket.SHUT_RD)
            sender.join()


@given(st.binary(max_size=300), st.integers(0, 3))
@example(b"*1\r\n$99999999999999999999\r\n", 1)
@example(b"*1\r\n$-5\r\n", 1)
@example(b"*1\r\n$3\r\nabcd\r\n", 1)
@example(b"*2\r\n$1\r\nx\r\n", 2)
@example(b"x" * 300, 1)
@settings(deadline=None)
def test_any_reply_is_an_error_of_the_client_or_as_many_values_as_asked(reply: bytes, num_values: int) -> None:
    try:
        found = read_from(reply, num_values)
    except redis.RedisError:
        return
    assert len(found) == num_values


@given(st.lists(st.none() | st.binary(max_size=200), max_size=6))
@settings(deadline=None)
def test_any_values_are_read_from_a_well_formed_reply(values: list[bytes | None]) -> None:
    parts = [b"$-1\r\n" if value is None else b"$%d\r\n%b\r\n" % (len(value), value) for value in values]
    assert read_from(b"*%d\r\n" % len(values) + b"".join(parts), len(values)) == values
