"""Shadow: fifty answers give fifty rows, also when the broker dies in between, and no caller notices."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from mesh_support import Mesh, ask, complete, wait_until

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2, gateway_pb2_grpc
from stagemesh.models.store import ModelFiles

CONFIG = {
    "shadow": {"candidate": "smollm2-135m-instruct", "candidate_settings": {"dtype": "bfloat16"}},
    "gateway": {"republish_after_s": 5},
}
NUM_REQUESTS = 50


@pytest.fixture(scope="module")
def shadowed(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> Iterator[Mesh]:
    running = Mesh(tmp_path_factory.mktemp("shadowed"), CONFIG)
    running.up()
    yield running
    running.down()


def rows(mesh: Mesh) -> list[dict[str, object]]:
    with closing(sqlite3.connect(mesh.state / "differ" / "shadow.db")) as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("select * from shadow_pairs")]


@pytest.mark.timeout(600)
async def test_fifty_requests_give_fifty_rows_though_the_broker_is_killed(shadowed: Mesh) -> None:
    before = len(rows(shadowed))
    async with shadowed.channel() as channel:
        stub = gateway_pb2_grpc.GatewayServiceStub(channel)

        async def one(number: int) -> gateway_pb2.Final:
            if number == NUM_REQUESTS // 2:
                shadowed.kill("kafka")
            return await complete(stub, ask(f"Say a word about {number}.", sampling={"max_tokens": 6}))

        started_s = time.monotonic()
        finals = []
        for batch in range(0, NUM_REQUESTS, 10):
            finals += await asyncio.gather(*(one(number) for number in range(batch, batch + 10)))
        assert time.monotonic() - started_s < 300  # no caller waits for the broker's return
    assert all(final.outcome == common_pb2.OUTCOME_COMPLETE for final in finals)
    wait_until(lambda: len(rows(shadowed)) - before >= NUM_REQUESTS, 240, "all rows")
    found = {str(row["request_id"]): row for row in rows(shadowed)}
    assert len(found) == len(rows(shadowed))  # one row each
    for final in finals:
        row = found[final.request_id]
        assert row["stable_text"] == final.choices[0].text
        assert row["error"] == ""
        assert 0 <= float(str(row["similarity"])) <= 1


def test_the_report_counts_them(shadowed: Mesh) -> None:
    report = json.loads(shadowed.command("shadow", "report", "--json").stdout)
    assert report["rows"] >= NUM_REQUESTS
    assert 0.5 < report["mean_similarity"] <= 1
