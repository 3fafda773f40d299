"""Lexical libraries on the same passages: time to index, time of a search, size; what decision 0220 is made from.

python benchmarks/knowledge_libraries.py [--documents 100000] [--searches 300] [--busy] [--json]

tantivy and SQLite's FTS5 are always there; bm25s, rank_bm25 and jieba are measured where they are installed. All get
the same words (`services/cache/knowledge/analysis.py`) but FTS5's trigrams, which make their own.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.knowledge_sync import Writer
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from services.cache.knowledge.analysis import words
from services.cache.knowledge.index import entries, open_index
from services.cache.knowledge.searching import BaseSearcher
from stagemesh.runtime.knowledge import KnowledgeDocument

LIMIT = 12
Search = Callable[[str], object]
Built = tuple[Search, float]
"""A search, and the megabytes on disk (0: in memory)."""


def tantivy(documents: Sequence[KnowledgeDocument], folder: Path) -> Built:
    index = open_index(folder, create=True)
    writer = index.writer(64_000_000, num_threads=1)
    for document in documents:
        for entry in entries(document):
            writer.add_document(entry)
    writer.commit()
    writer.wait_merging_threads()
    searcher = BaseSearcher(folder)
    return lambda question: searcher.search(question, 4, 0.3), _megabytes(folder)


def fts5_words(documents: Sequence[KnowledgeDocument], folder: Path) -> Built:
    return _fts5(documents, folder, "unicode61", lambda text: " ".join(words(text)), words)


def fts5_trigrams(documents: Sequence[KnowledgeDocument], folder: Path) -> Built:
    def trigrams(question: str) -> list[str]:
        return [question[i : i + 3].replace('"', "") for i in range(len(question) - 2)]

    return _fts5(documents, folder, "trigram", lambda text: text, trigrams)


def _fts5(
    documents: Sequence[KnowledgeDocument],
    folder: Path,
    tokenizer: str,
    prepare: Callable[[str], str],
    terms: Callable[[str], list[str]],
) -> Built:
    database = sqlite3.connect(folder / "index.sqlite")
    database.execute(f"create virtual table passages using fts5(terms, tokenize = '{tokenizer}')")
    database.executemany("insert into passages values (?)", ((prepare(one.text),) for one in documents))
    database.commit()
    statement = "select rowid from passages where passages match ? order by rank limit ?"

    def search(question: str) -> object:
        any_term = " OR ".join(f'"{term}"' for term in terms(question))
        return database.execute(statement, (any_term, LIMIT)).fetchall()

    return search, _megabytes(folder)


def bm25s(documents: Sequence[KnowledgeDocument], folder: Path) -> Built:
    import bm25s as library

    index = library.BM25()
    index.index([words(one.text) for one in documents], show_progress=False)
    return lambda question: index.retrieve([words(question)], k=LIMIT, show_progress=False), 0.0


def rank_bm25(documents: Sequence[KnowledgeDocument], folder: Path) -> Built:
    from rank_bm25 import BM25Okapi

    index = BM25Okapi([words(one.text) for one in documents])
    return lambda question: index.get_scores(words(question)), 0.0


LIBRARIES: dict[str, tuple[str, Callable[[Sequence[KnowledgeDocument], Path], Built]]] = {
    "tantivy": ("tantivy", tantivy),
    "fts5_words": ("sqlite3", fts5_words),
    "fts5_trigrams": ("sqlite3", fts5_trigrams),
    "bm25s": ("bm25s", bm25s),
    "rank_bm25": ("rank_bm25", rank_bm25),
}

SLOW = frozenset({"fts5_trigrams", "rank_bm25"})
"""A search takes seconds at the worst: a few are enough."""


def measure(build: Callable[..., Built], documents: Sequence[KnowledgeDocument], asked: list[str]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        started_s = time.process_time()
        search, megabytes = build(documents, Path(folder))
        index_s, times = time.process_time() - started_s, []
        for question in asked:
            started_s = time.process_time()
            search(question)
            times.append((time.process_time() - started_s) * 1e3)
    times.sort()
    return {
        "index_cpu_s": round(index_s, 1),
        "search_p50_cpu_ms": round(times[len(times) // 2], 2),
        "search_p99_cpu_ms": round(times[int(len(times) * 0.99)], 2),
        "megabytes": round(megabytes, 1),
    }


def segmentation(documents: Sequence[KnowledgeDocument]) -> dict[str, float]:
    """Chinese text into words by jieba, against pairs of characters."""
    texts = [one.text for one in documents if not one.text.isascii()][:2_000]
    found = {}
    for name, cut in (("pairs", words), *((("jieba", _jieba()),) if _has("jieba") else ())):
        started_s = time.process_time()
        for text in texts:
            list(cut(text))
        found[f"{name}_million_chars_a_s"] = round(
            sum(map(len, texts)) / 1e6 / max(time.process_time() - started_s, 1e-9), 2
        )
    return found


def _jieba() -> Any:
    import jieba

    jieba.initialize()
    return jieba.cut_for_search


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true", help="print one JSON object at the end")
    options = parser.parse_args()
    writer = Writer(seed=1)
    documents = [writer.document(number) for number in range(options.documents)]
    asked = [writer.question(one) for one in random.Random(1).choices(documents, k=options.searches)]
    result: dict[str, Any] = {"documents": len(documents)}
    with no_lock() if options.busy else benchmark_lock():
        machine = describe_machine()
        for name, (module, build) in LIBRARIES.items():
            if _has(module):
                result[name] = measure(build, documents, asked[:20] if name in SLOW else asked)
                print(name, json.dumps(result[name]), file=sys.stderr, flush=True)
        result["segmentation"] = segmentation(documents)
    print(json.dumps({"machine": machine, **result} if options.json else result))


if __name__ == "__main__":
    main()
