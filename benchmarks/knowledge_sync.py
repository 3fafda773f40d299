"""A knowledge base of 100,000 short documents: the first sync, syncs after 1 % has changed, searches.

python benchmarks/knowledge_sync.py [--documents 100000] [--changed 1] [--searches 2000] [--busy] [--json]

A Valkey and a cache service run as processes of their own on this machine, and are called over gRPC as `stagemesh kb`
does it. Half of the documents are English, half Chinese: made up, but with the skew of real words. Every time is the
caller's, from documents in memory to the report: digests, transfer, indexing and storing in Redis included.
`changed_spread_s` is for a change in documents chosen at random, `changed_together_s` for neighbours.
"""

from __future__ import annotations

import argparse
import asyncio
import bisect
import itertools
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from stagemesh.api.cache.v1 import knowledge_pb2
from stagemesh.cli.client.knowledge import Stub, by_shard, digests, sync
from stagemesh.embedded import valkey
from stagemesh.runtime.channel import dial
from stagemesh.runtime.knowledge import KnowledgeDocument

NUM_WORDS, NUM_HAN = 30_000, 3_000
ENGLISH_WORDS, CHINESE_CHARS = 50, 120
START_S = 60


class Writer:
    """Texts whose words follow Zipf's law."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        letters = "abcdefghijklmnopqrstuvwxyz"
        self._words = ["".join(self._random.choices(letters, k=self._random.randint(3, 9))) for _ in range(NUM_WORDS)]
        self._word_weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(NUM_WORDS)))
        self._han_weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(NUM_HAN)))

    def document(self, number: int) -> KnowledgeDocument:
        text = self.english(ENGLISH_WORDS) if number % 2 else self.chinese(CHINESE_CHARS)
        return KnowledgeDocument(f"doc-{number}", f"Entry {number}", text)

    def english(self, number: int) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._word_weights, k=number))

    def chinese(self, number: int) -> str:
        return "".join(chr(0x4E00 + self._rank()) for _ in range(number))

    def question(self, document: KnowledgeDocument) -> str:
        """A part of a document, and words that are not from it."""
        if document.text.isascii():
            return " ".join([*self._random.sample(document.text.split(), 6), self.english(4)])
        start = self._random.randrange(CHINESE_CHARS - 12)
        return document.text[start : start + 12] + self.chinese(6)

    def _rank(self) -> int:
        return bisect.bisect(self._han_weights, self._random.random() * self._han_weights[-1])


@contextmanager
def processes(folder: Path) -> Iterator[str]:
    """A ledger and a cache service; gives the service's address."""
    password, port, listen = valkey.load_password(folder), free_port(), f"127.0.0.1:{free_port()}"
    settings = {
        "STAGEMESH_LEDGER_URL": valkey.url(port, password),
        "STAGEMESH_STATE_DIR": str(folder),
        "STAGEMESH_CACHE__LISTEN": listen,
        "STAGEMESH_LOG_LEVEL": "WARNING",
    }
    running = [
        subprocess.Popen(valkey.command(folder, port, password), stdout=subprocess.DEVNULL),
        subprocess.Popen([sys.executable, "-P", "-m", "services.cache"], env={**os.environ, **settings}),
    ]
    try:
        yield listen
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def timed_sync(stub: Stub, documents: Sequence[KnowledgeDocument]) -> tuple[float, knowledge_pb2.SyncReport]:
    started_s = time.perf_counter()
    shards = by_shard(documents)
    begin = knowledge_pb2.SyncBegin(tenant_id="bench", knowledge="base", delete_missing=True, shards=digests(shards))
    report = await sync(stub, (), begin, shards, lambda done, of: None)
    return time.perf_counter() - started_s, report


async def search_times(stub: Stub, questions: Sequence[tuple[str, str]]) -> tuple[list[float], float]:
    """Milliseconds of each search, sorted; and the share that found the document which the question is from."""
    times, right = [], 0
    for question, document_id in questions:
        request = knowledge_pb2.SearchRequest(tenant_id="bench", knowledge="base", query=question)
        started_s = time.perf_counter()
        found = await stub.Search(request, timeout=30)
        times.append((time.perf_counter() - started_s) * 1e3)
        right += any(passage.document_id == document_id for passage in found.passages)
    return sorted(times), right / len(questions)


def changed(documents: list[KnowledgeDocument], numbers: Sequence[int], mark: str) -> list[KnowledgeDocument]:
    renewed = list(documents)
    for number in numbers:
        old = documents[number]
        renewed[number] = KnowledgeDocument(old.document_id, old.title, f"{old.text} {mark}")
    return renewed


async def measure(address: str, options: argparse.Namespace, say: Callable[[str], None]) -> dict[str, object]:
    writer = Writer(options.seed)
    documents = [writer.document(number) for number in range(options.documents)]
    num_changed = max(1, options.documents * options.changed // 100)
    picks = random.Random(options.seed)
    channel = dial((address,))
    try:
        async with asyncio.timeout(START_S):
            await channel.channel_ready()
        stub = Stub(channel)
        first_s, report = await timed_sync(stub, documents)
        say(f"first sync {first_s:.1f} s, {report.stored_bytes / 1e6:.0f} MB stored")
        same_s, _ = await timed_sync(stub, documents)
        spread = changed(documents, picks.sample(range(options.documents), num_changed), "renewed")
        spread_s, spread_report = await timed_sync(stub, spread)
        say(f"{num_changed} changed at random {spread_s:.1f} s, {spread_report.new_bytes / 1e6:.1f} MB new")
        start = picks.randrange(options.documents - num_changed + 1)
        together = changed(spread, range(start, start + num_changed), "again")
        together_s, _ = await timed_sync(stub, together)
        asked = [(writer.question(one), one.document_id) for one in picks.choices(together, k=options.searches)]
        times, found = await search_times(stub, asked)
    finally:
        await channel.close()
    return {
        "documents": report.documents,
        "passages": report.passages,
        "stored_mb": round(report.stored_bytes / 1e6, 1),
        "first_sync_s": round(first_s, 2),
        "unchanged_s": round(same_s, 2),
        "changed_documents": num_changed,
        "changed_spread_s": round(spread_s, 2),
        "changed_together_s": round(together_s, 2),
        "shards_changed_spread": spread_report.shards_changed,
        "search_p50_ms": round(statistics.median(times), 2),
        "search_p99_ms": round(times[int(len(times) * 0.99)], 2),
        "found_share": round(found, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--changed", type=int, default=1, help="percent")
    parser.add_argument("--searches", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    options = parser.parse_args()

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with no_lock() if options.busy else benchmark_lock(), tempfile.TemporaryDirectory() as folder:
        machine = describe_machine()
        with processes(Path(folder)) as address:
            result = asyncio.run(measure(address, options, say))
    print(json.dumps({"machine": machine, **result} if options.json else result))


if __name__ == "__main__":
    main()
