"""Who may bring faults on purpose."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from services.gateway.fault_header import bind_faults, host_of
from stagemesh.runtime.errors import Forbidden, InvalidRequest
from stagemesh.runtime.faults import board, request_faults


@pytest.fixture
def open_board() -> Iterator[None]:
    board.open([])
    token = request_faults.set(None)
    yield
    request_faults.reset(token)
    board.close()


@pytest.mark.parametrize(
    ("peer", "host"),
    [("ipv4:127.0.0.1:4711", "127.0.0.1"), ("ipv6:%5B::1%5D:4711", "::1"), ("ipv4:10.0.0.9:1", "10.0.0.9")],
)
def test_the_host_of_a_peer_is_read_from_grpc_s_name(peer: str, host: str) -> None:
    assert host_of(peer) == host


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.9.9.9"])
def test_a_caller_on_this_machine_may(host: str, open_board: None) -> None:
    bind_faults("mlp=error", host)
    faults = request_faults.get()
    assert faults is not None
    assert [fault.stage for fault in faults.take("mlp")] == ["mlp"]


@pytest.mark.parametrize("host", ["10.0.0.9", "", "localhost.evil.example", "unix"])
def test_another_machine_may_not(host: str, open_board: None) -> None:
    with pytest.raises(Forbidden) as caught:
        bind_faults("mlp=error", host)
    assert caught.value.reason == "FAULTS_REFUSED"
    assert request_faults.get() is None


def test_nobody_may_in_production() -> None:
    with pytest.raises(Forbidden):
        bind_faults("mlp=error", "127.0.0.1")
    bind_faults("", "127.0.0.1")


def test_what_says_nothing_is_refused(open_board: None) -> None:
    with pytest.raises(InvalidRequest):
        bind_faults("mlp", "127.0.0.1")


@pytest.mark.parametrize("name", ["forwarded", "x-forwarded-for", "x-forwarded-proto", "x-real-ip", "via"])
def test_nobody_may_through_a_proxy_on_this_machine(name: str, open_board: None) -> None:
    with pytest.raises(Forbidden):
        bind_faults("mlp=error", "127.0.0.1", ["content-type", name])
    assert request_faults.get() is None
