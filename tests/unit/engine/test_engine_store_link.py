from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from services.engine.kv.miss_cause import MissCause
from services.engine.kv.store_link import StoreFailed, StoreLink
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.config import ConfigError

NEVER = BreakerConfig(failure_threshold=1000)


@contextlib.contextmanager
def server(answer: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server that answers what comes on each connection with `answer`; gives its URL."""
    closing, threads, ends = threading.Event(), list[threading.Thread](), list[socket.socket]()

    def serve(end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while end.recv(65536):
                answer(end, closing)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                end, _ = listener.accept()
                ends.append(end)
                threads.append(threading.Thread(target=serve, args=(end,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threads.append(threading.Thread(target=accept))
        threads[0].start()
        try:
            yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        finally:
            closing.set()
            for end in (listener, *ends):
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join()
            for end in ends:
                end.close()


def says(reply: bytes) -> Callable[[socket.socket, threading.Event], None]:
    return lambda end, _closing: end.sendall(reply)


def drips(end: socket.socket, closing: threading.Event) -> None:
    end.sendall(b"$1000000\r\n")
    while not closing.wait(0.005):
        end.sendall(b"x")


def ask(link: StoreLink, seconds: float = 0.3) -> object:
    with link.within(seconds) as client:
        return client.get("key")


def cause_of(link: StoreLink, seconds: float = 0.3) -> MissCause:
    with pytest.raises(StoreFailed) as failed:
        ask(link, seconds)
    return failed.value.cause


@contextlib.contextmanager
def linked(url: str, breaker: BreakerConfig = NEVER) -> Iterator[StoreLink]:
    link = StoreLink(url, breaker)
    try:
        yield link
    finally:
        link.close()


def test_a_reply_comes_through() -> None:
    with server(says(b"$2\r\nhi\r\n")) as url, linked(url) as link:
        assert [ask(link, 10.0), ask(link, 10.0)] == [b"hi", b"hi"]


@pytest.mark.parametrize("answer", [drips, lambda _end, closing: closing.wait(60)])
def test_a_server_that_drips_or_says_nothing_is_slow_when_the_time_is_over(
    answer: Callable[[socket.socket, threading.Event], None],
) -> None:
    with server(answer) as url, linked(url) as link:
        assert [cause_of(link), cause_of(link)] == [MissCause.STORE_SLOW, MissCause.STORE_SLOW]


@pytest.mark.parametrize(
    ("reply", "cause"),
    [
        (b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", MissCause.STORE_FULL),
        (b"-NOPERM this user has no permissions\r\n", MissCause.STORE_REFUSED),
        (b"-LOADING the dataset in memory\r\n", MissCause.STORE_UNAVAILABLE),
        (b"what is this\r\n", MissCause.STORE_UNAVAILABLE),
    ],
)
def test_each_kind_of_failure_has_its_cause(reply: bytes, cause: MissCause) -> None:
    with server(says(reply)) as url, linked(url) as link:
        assert cause_of(link, 10.0) is cause


def test_nobody_there_is_unavailable_and_after_repeated_failures_nobody_is_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with linked(f"redis://127.0.0.1:{port}/0", BreakerConfig(failure_threshold=2, open_s=1000.0)) as link:
        for can_call in (True, True, False):
            assert link.can_call() is can_call
            assert cause_of(link) is MissCause.STORE_UNAVAILABLE


def test_a_malformed_url_names_its_key() -> None:
    with pytest.raises(ConfigError, match="kv_url"):
        StoreLink("http://nowhere", NEVER)
