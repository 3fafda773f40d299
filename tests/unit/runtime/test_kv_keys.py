"""Names of KV pages: equal for equal tokens of one owner, and for nothing else."""

from __future__ import annotations

import hmac
import struct

from hypothesis import given
from hypothesis import strategies as st

from stagemesh.runtime.kv_keys import PAGE_TOKENS, chain_key, namespace, netstrings, page_digests, value_name

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=100)
KEY = chain_key(b"salt", "tenant", "int4")


@given(TOKENS)
def test_only_full_pages_have_a_digest_and_each_depends_on_all_before_it(tokens: list[int]) -> None:
    digests = list(page_digests(KEY, tokens))
    assert len(digests) == len(tokens) // PAGE_TOKENS
    expected, parent = [], b""
    for start in range(0, len(digests) * PAGE_TOKENS, PAGE_TOKENS):
        page = struct.pack("<16I", *tokens[start : start + PAGE_TOKENS])
        parent = hmac.digest(KEY, parent + page, "sha256")
        expected.append(parent)
    assert digests == expected


@given(TOKENS, st.integers(0, 6))
def test_a_chain_can_be_continued(tokens: list[int], num_pages: int) -> None:
    whole = list(page_digests(KEY, tokens))
    first = whole[:num_pages]
    rest = list(page_digests(KEY, tokens[len(first) * PAGE_TOKENS :], first[-1] if first else b""))
    assert first + rest == whole


def test_fields_cannot_run_into_each_other() -> None:
    assert netstrings(b"ab", b"c") != netstrings(b"a", b"bc")
    assert chain_key(b"salt", "t1", "int4") != chain_key(b"salt", "t", "1int4")


def test_another_salt_tenant_or_precision_names_other_pages() -> None:
    tokens = list(range(32))
    keys = [
        KEY,
        chain_key(b"other", "tenant", "int4"),
        chain_key(b"salt", "other", "int4"),
        chain_key(b"salt", "tenant", "b"),
    ]
    assert len({digest for key in keys for digest in page_digests(key, tokens)}) == 8


def test_a_namespace_belongs_to_a_tenant_and_an_epoch() -> None:
    spaces = {namespace("a", 1), namespace("a", 2), namespace("b", 1)}
    assert len(spaces) == 3
    assert value_name(namespace("a", 1), b"\x00" * 32).startswith(namespace("a", 1))
