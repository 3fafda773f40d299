"""The callers of `stagemesh bench` against real servers."""

from pathlib import Path

import pytest
from engine_server_support import engine_server, load, make_tiny_model

from services.engine.measure import Workload
from stagemesh.cli.bench.callers import through_engine
from stagemesh.cli.exits import CommandError


async def test_every_token_of_a_workload_is_counted_once(tmp_path: Path) -> None:
    model = load(make_tiny_model(tmp_path))
    async with engine_server(model) as server:
        with pytest.raises(CommandError):  # prompts for the vocabularies of real models
            await through_engine(server.stub, Workload(num_prompt=8, num_output=2))
        workload = Workload(num_sequences=3, num_prompt=8, num_output=5, vocab_size=200)
        streams = await through_engine(server.stub, workload)
    assert [len(stream.token_times_s) for stream in streams] == [5, 5, 5]
    assert all(stream.ttft_ms > 0 for stream in streams)
