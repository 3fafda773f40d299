"""The index of one base: a folder of files that are written once, each commit adding some (tantivy's format)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tantivy

from services.cache.knowledge.analysis import ANALYZER, stemmer, words
from services.cache.knowledge.chunks import chunks
from stagemesh.runtime.knowledge import KnowledgeDocument

TERMS, DOCUMENT, SHARD = "terms", "document", "shard"


def schema() -> tantivy.Schema:
    """One entry for each passage."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(TERMS, stored=False, tokenizer_name=ANALYZER, index_option="freq")
    builder.add_text_field(DOCUMENT, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_unsigned_field(SHARD, stored=False, indexed=True)
    builder.add_bytes_field("digest", stored=True, indexed=False)
    builder.add_bytes_field("title", stored=True, indexed=False)
    builder.add_bytes_field("text", stored=True, indexed=False)
    builder.add_bytes_field("passage", stored=True, indexed=False)
    return builder.build()


def open_index(folder: Path, *, create: bool = False) -> tantivy.Index:
    """The index in `folder`. Raises ValueError when there is none, or a damaged one."""
    index = tantivy.Index(schema(), path=str(folder), reuse=False) if create else tantivy.Index.open(str(folder))
    index.register_tokenizer(ANALYZER, stemmer())
    index.config_reader("manual", 0)
    return index


def entries(document: KnowledgeDocument) -> list[tantivy.Document]:
    """What the index holds of a document: its passages, each found by its own words and those of the title."""
    digest, title_words = document.digest(), words(document.title)
    made = []
    for chunk in chunks(document):
        entry = tantivy.Document()
        entry.add_text(TERMS, " ".join([*title_words, *words(chunk.text)]))
        entry.add_text(DOCUMENT, document.document_id)
        entry.add_unsigned(SHARD, document.shard)
        entry.add_bytes("digest", digest)
        entry.add_bytes("title", document.title.encode())
        entry.add_bytes("text", chunk.text.encode())
        entry.add_bytes("passage", chunk.passage_id.encode())
        made.append(entry)
    return made


@dataclass(frozen=True)
class Entry:
    """A passage as the index stores it."""

    passage_id: str
    document_id: str
    title: str
    text: str


def read_entry(stored: tantivy.Document) -> Entry:
    return Entry(
        passage_id=_bytes(stored, "passage").decode(),
        document_id=str(stored.get_first(DOCUMENT)),
        title=_bytes(stored, "title").decode(),
        text=_bytes(stored, "text").decode(),
    )


def digests_in(searcher: tantivy.Searcher, index: tantivy.Index, shard: int) -> dict[str, bytes]:
    """The documents of one shard with their digests."""
    query = tantivy.Query.term_query(index.schema, SHARD, shard)
    number = searcher.doc_freq(SHARD, shard)
    if not number:
        return {}
    hits = searcher.search(query, number, count=False).hits
    found = {}
    for _, address in hits:
        stored = searcher.doc(address)
        found[str(stored.get_first(DOCUMENT))] = _bytes(stored, "digest")
    return found


def _bytes(stored: tantivy.Document, field: str) -> bytes:
    return bytes(stored.get_first(field) or b"")
