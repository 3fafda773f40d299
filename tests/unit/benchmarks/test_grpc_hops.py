"""A short run of the benchmark of bare calls."""

import json

import pytest

from benchmarks.grpc_hops import main


def test_the_short_run_prints_what_each_way_costs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--quick", "--busy", "--json"]) == 0
    [hop] = json.loads(capsys.readouterr().out)["hops"]
    assert all(hop[way] > 0 for way in ("call_ms", "stream_ms", "socket_ms"))
