"""The passages that fit a question: BM25 over its telling words, and only where enough of the question is found."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import tantivy

from services.cache.knowledge.analysis import query_words, stemmer, words
from services.cache.knowledge.index import TERMS, Entry, open_index, read_entry

MAX_QUERY_CHARS = 4_000
MAX_QUERY_WORDS = 64
CANDIDATES_EACH = 3
"""Candidates looked at for each passage wanted: some fall below `min_coverage`."""


@dataclass(frozen=True)
class Found:
    entry: Entry
    score: float
    coverage: float
    """The share of the question's weight whose words are in the passage."""


class BaseSearcher:
    """One version of one base. Thread-safe: its index is opened once and never reloaded."""

    def __init__(self, folder: Path) -> None:
        self._index = open_index(folder)
        self._searcher = self._index.searcher()
        self._stemmer = stemmer()

    def search(self, question: str, max_passages: int, min_coverage: float) -> list[Found]:
        """Best first; equal scores in the order of their IDs."""
        weights = self._weights(question)
        if not weights or not max_passages:
            return []
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._index.schema, TERMS, term, "freq"))
            for term in weights
        ]
        wanted = max_passages * CANDIDATES_EACH
        hits = self._searcher.search(tantivy.Query.boolean_query(terms), wanted, count=False).hits
        found = [self._found(score, address, weights) for score, address in hits]
        enough = [one for one in found if one.coverage >= min_coverage]
        return sorted(enough, key=lambda one: (-one.score, one.entry.passage_id))[:max_passages]

    def _weights(self, question: str) -> dict[str, float]:
        """Stemmed word → its weight; the words of no passage count half as much as the rarest."""
        number = self._searcher.num_docs
        stems = self._stemmer.analyze(" ".join(query_words(question[:MAX_QUERY_CHARS], MAX_QUERY_WORDS)))
        weights = {}
        for stem in dict.fromkeys(stems):
            frequency = self._searcher.doc_freq(TERMS, stem)
            rarity = math.log(1 + (number - frequency + 0.5) / (frequency + 0.5))
            weights[stem] = rarity if frequency else rarity / 2
        return weights

    def _found(self, score: float, address: tantivy.DocAddress, weights: dict[str, float]) -> Found:
        entry = read_entry(self._searcher.doc(address))
        present = set(self._stemmer.analyze(" ".join(words(f"{entry.title}\n{entry.text}"))))
        matched = sum(weight for stem, weight in weights.items() if stem in present)
        return Found(entry, float(score), matched / max(sum(weights.values()), 1e-9))
