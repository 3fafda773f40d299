from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.block_manager import PAGE_SIZE, BlockManager, num_pages_for
from services.engine.page_table import Owner, PageTable, PublicPrefix
from stagemesh.runtime.kv_keys import chain_key, page_digests

ALICE, BOB, NOBODY = Owner("alice", b"salt-a"), Owner("bob", b"salt-b"), Owner("alice", b"")
PROMPT = list(range(40))


def held(blocks: BlockManager, owner: Owner, tokens: list[int]) -> tuple[PageTable, int]:
    """A table whose tokens have been computed and made known."""
    table = PageTable(owner)
    num_cached = blocks.allocate(table, tokens)
    blocks.commit(table, tokens, len(tokens))
    return table, num_cached


def test_full_pages_of_an_equal_prompt_are_shared() -> None:
    blocks = BlockManager(8)
    first, _ = held(blocks, ALICE, PROMPT)
    second, num_cached = held(blocks, ALICE, PROMPT)
    assert num_cached == 32
    assert second.pages[:2] == first.pages[:2]
    assert second.pages[2] != first.pages[2], "the open page is each one's own"
    blocks.check_integrity([first, second])


def test_the_last_token_is_always_left_to_compute() -> None:
    blocks = BlockManager(8)
    held(blocks, ALICE, PROMPT[:32])
    _, num_cached = held(blocks, ALICE, PROMPT[:32])
    assert num_cached == 16


def test_pages_outlive_their_sequence_and_are_found_again() -> None:
    blocks = BlockManager(8)
    table, _ = held(blocks, ALICE, PROMPT)
    blocks.release(table)
    assert blocks.num_used == 0
    assert blocks.num_cached_pages(PageTable(ALICE), PROMPT) == 2


def test_another_salt_or_tenant_finds_nothing() -> None:
    blocks = BlockManager(8)
    held(blocks, ALICE, PROMPT)
    assert blocks.num_cached_pages(PageTable(BOB), PROMPT) == 0
    assert blocks.num_cached_pages(PageTable(Owner("bob", ALICE.salt)), PROMPT) == 0
    assert blocks.num_cached_pages(PageTable(Owner(ALICE.tenant_id, b"other")), PROMPT) == 0


def test_without_a_salt_nothing_is_reused() -> None:
    blocks = BlockManager(8)
    held(blocks, NOBODY, PROMPT)
    assert held(blocks, NOBODY, PROMPT)[1] == 0


def test_a_page_that_changes_owner_is_cleared_first() -> None:
    blocks = BlockManager(3)
    table, _ = held(blocks, ALICE, PROMPT)
    pages = list(table.pages)
    blocks.release(table)
    held(blocks, BOB, [9] * 40)
    assert sorted(blocks.take_pages_to_zero()) == sorted(pages)


def test_a_page_that_stays_with_its_owner_is_not_cleared() -> None:
    blocks = BlockManager(3)
    table, _ = held(blocks, ALICE, PROMPT)
    blocks.release(table)
    held(blocks, ALICE, [9] * 40)
    assert blocks.take_pages_to_zero() == []


def test_poisoned_pages_are_forgotten_and_cleared() -> None:
    blocks = BlockManager(3)
    table, _ = held(blocks, ALICE, PROMPT)
    pages = set(table.pages)
    blocks.release(table, poisoned=True)
    assert set(blocks.take_pages_to_zero()) == pages
    assert blocks.num_cached_pages(PageTable(ALICE), PROMPT) == 0
    blocks.check_integrity([])


def test_known_pages_are_evicted_oldest_first_and_ends_of_chains_before_beginnings() -> None:
    blocks = BlockManager(4)
    old, _ = held(blocks, ALICE, PROMPT[:32])
    blocks.release(old)
    new, _ = held(blocks, ALICE, [7] * 32)
    blocks.release(new)
    held(blocks, BOB, [1] * 16)
    assert blocks.num_cached_pages(PageTable(ALICE), [*PROMPT[:32], 0]) == 1
    assert blocks.num_cached_pages(PageTable(ALICE), [*[7] * 32, 0]) == 2


operations = st.lists(
    st.tuples(
        st.sampled_from(["start", "grow", "release", "end", "poison"]),
        st.sampled_from([ALICE, BOB, NOBODY]),
        st.integers(0, 3),  # which prompt family
        st.integers(1, 70),
    ),
    max_size=60,
)


@settings(max_examples=150, deadline=None)
@given(operations)
def test_no_page_is_leaked_or_shared_wrongly_whatever_happens(steps: list[tuple[str, Owner, int, int]]) -> None:
    blocks = BlockManager(10)
    live: list[tuple[PageTable, Owner, list[int]]] = []
    content: dict[int, tuple[Owner, list[int]]] = {}  # what a page holds, after what
    for action, owner, family, number in steps:
        if action == "start":
            tokens = [family] * min(number, 32) + list(range(max(0, number - 32)))
            table = PageTable(owner)
            if blocks.can_allocate(table, tokens):
                num_cached = blocks.allocate(table, tokens)
                assert num_cached < len(tokens)
                for index in range(num_pages_for(num_cached)):
                    end = min(num_cached, (index + 1) * PAGE_SIZE)
                    held_by, held_tokens = content[table.pages[index]]
                    assert (held_by, held_tokens[:end]) == (owner, tokens[:end])
                live.append((table, owner, tokens))
        elif live:
            table, owner, tokens = live[number % len(live)]
            if action == "grow" and blocks.can_extend(table, len(tokens) + 1):
                tokens.append(number)
                blocks.extend(table, len(tokens))
            elif action in {"release", "end", "poison"}:
                if action == "end":
                    blocks.keep_tail(table, tokens, len(tokens))
                blocks.release(table, poisoned=action == "poison")
                live.remove((table, owner, tokens))
        for table, owner, tokens in live:
            for index in range(num_pages_for(len(tokens))):
                content[table.pages[index]] = (owner, tokens[: (index + 1) * PAGE_SIZE])
            blocks.commit(table, tokens, len(tokens))
            assert len(table.pages) == num_pages_for(len(tokens))
        blocks.check_integrity([table for table, _, _ in live])
    for table, _, _ in live:
        blocks.release(table)
    assert blocks.num_free == blocks.num_pages
    blocks.check_integrity([])


def test_a_page_has_the_name_that_the_cache_service_computes_for_it() -> None:
    blocks, owner = BlockManager(8), Owner("alice", b"salt-a", "q8_0")
    table, _ = held(blocks, owner, PROMPT)
    names = list(page_digests(chain_key(b"salt-a", "alice", "q8_0"), PROMPT))
    assert [known.digest for known in blocks.known_pages(table, PROMPT)] == names
    assert [known.parent for known in blocks.known_pages(table, PROMPT)] == [b"", names[0]]


def test_tenants_share_the_pages_of_a_public_prefix_and_no_others() -> None:
    blocks, public = BlockManager(8), PublicPrefix(b"everybody", 1)
    first, second, third = PageTable(ALICE, public), PageTable(BOB, public), PageTable(BOB, public)
    blocks.allocate(first, PROMPT)
    blocks.commit(first, PROMPT, len(PROMPT))
    assert blocks.allocate(second, PROMPT) == PAGE_SIZE
    blocks.commit(second, PROMPT, len(PROMPT))
    assert blocks.num_cached_pages(third, PROMPT) == 2
    assert blocks.num_cached_pages(PageTable(BOB), PROMPT) == 0, "declared public by another salt, or by none"
    (shared, own) = blocks.known_pages(second, PROMPT)
    names = list(page_digests(chain_key(b"everybody", "", ""), PROMPT[:PAGE_SIZE]))
    names += page_digests(chain_key(BOB.salt, "bob", ""), PROMPT[PAGE_SIZE:], names[0])
    assert [shared.digest, own.digest] == names
    blocks.check_integrity([first, second])


def test_without_a_salt_public_pages_are_not_reused_either() -> None:
    blocks, public = BlockManager(8), PublicPrefix(b"everybody", 1)
    for owner in (ALICE, NOBODY):
        table = PageTable(owner, public)
        assert blocks.allocate(table, PROMPT) == 0
        blocks.commit(table, PROMPT, len(PROMPT))


def test_a_page_is_cleared_when_it_becomes_public_and_when_it_no_longer_is() -> None:
    blocks, public = BlockManager(3), PublicPrefix(b"everybody", 3)
    table, _ = held(blocks, ALICE, PROMPT)
    pages = sorted(table.pages)
    for owner, prefix in ((ALICE, public), (BOB, public), (BOB, None)):
        blocks.release(table)
        table = PageTable(owner, prefix)
        blocks.allocate(table, [number + len(owner.tenant_id) for number in PROMPT])
        changed = owner is ALICE or prefix is None
        assert sorted(blocks.take_pages_to_zero()) == (pages if changed else [])


def test_a_held_page_outlives_its_sequence_and_all_that_want_its_place() -> None:
    blocks = BlockManager(3)
    table, _ = held(blocks, ALICE, PROMPT)
    pages = [known.page for known in blocks.known_pages(table, PROMPT)]
    blocks.hold(pages)
    blocks.release(table)
    blocks.check_integrity([], pages)
    assert not blocks.can_allocate(PageTable(BOB), [1] * 17)
    blocks.let_go(pages)
    assert blocks.can_allocate(PageTable(BOB), [1] * 17)
    assert blocks.num_cached_pages(PageTable(ALICE), PROMPT) == 2


def test_pages_to_be_forgotten_next_are_told_if_they_were_reused() -> None:
    blocks = BlockManager(4)
    for tokens in ([1] * 16, [2] * 16):
        table, _ = held(blocks, ALICE, tokens)
        blocks.release(table)
    again, _ = held(blocks, ALICE, [1] * 17)
    blocks.release(again)
    assert [list(known.tokens) for known in blocks.next_forgotten(4)] == [[1] * 16]


def test_pages_to_clear_are_cleared_by_whoever_takes_them() -> None:
    blocks = BlockManager(3)
    table, _ = held(blocks, ALICE, PROMPT)
    first, *others = list(table.pages)
    blocks.release(table)
    held(blocks, BOB, [9] * 40)
    assert blocks.take_pages_to_zero([first, 99]) == [first]
    assert sorted(blocks.take_pages_to_zero()) == sorted(others)


def test_of_a_tenant_that_is_forgotten_nothing_is_reused_and_free_pages_are_cleared() -> None:
    blocks = BlockManager(12)
    ended, _ = held(blocks, ALICE, PROMPT)
    pages = list(ended.pages)
    blocks.release(ended)
    running, _ = held(blocks, ALICE, [7] * 40)
    other, _ = held(blocks, BOB, PROMPT)
    assert blocks.forget_tenant("alice") == 5
    assert not blocks.take_pages_to_zero()
    (first,) = blocks.take_pages_to_clear(1)
    another, _ = held(blocks, BOB, [8] * 20)
    (taken,) = blocks.take_pages_to_zero()
    assert set(another.pages) == {first, taken}, "who takes a page that was not cleared yet clears it"
    assert {first, taken, *blocks.take_pages_to_clear(9)} == set(pages) - set(running.pages)
    assert not blocks.has_pages_to_clear()
    blocks.check_integrity([running, other, another])
    for owner, tokens, known in ((ALICE, PROMPT, 0), (ALICE, [7] * 40, 0), (BOB, PROMPT, 2)):
        assert blocks.num_cached_pages(PageTable(owner), tokens) == known
    blocks.release(running)
    blocks.check_integrity([other, another])


def ended(blocks: BlockManager, owner: Owner, tokens: list[int]) -> PageTable:
    """The table of a sequence that has ended well after computing all of `tokens`."""
    table, _ = held(blocks, owner, tokens)
    pages = PageTable(owner)
    pages.pages = table.pages[:]
    blocks.keep_tail(table, tokens, len(tokens))
    blocks.release(table)
    blocks.check_integrity([])
    return pages


def test_a_sequence_goes_on_in_the_open_page_of_the_one_before_it() -> None:
    blocks = BlockManager(8)
    before = ended(blocks, ALICE, PROMPT)
    table = PageTable(ALICE)
    assert blocks.allocate(table, [*PROMPT, 90, 91]) == len(PROMPT)
    assert table.pages == before.pages
    blocks.check_integrity([table])
    other = PageTable(ALICE)
    assert blocks.allocate(other, [*PROMPT, 92]) == 32, "the open page is the first one's who came"
    blocks.check_integrity([table, other])


def test_of_an_open_page_only_what_both_begin_with_is_taken() -> None:
    blocks = BlockManager(16)
    ended(blocks, ALICE, PROMPT)
    table = PageTable(ALICE)
    assert blocks.allocate(table, [*PROMPT[:35], 90, 91]) == 35
    blocks.release(table)
    ended(blocks, ALICE, PROMPT)
    assert blocks.allocate(PageTable(ALICE), PROMPT) == len(PROMPT) - 1, "the last token is computed in any case"


def test_nobody_else_finds_an_open_page() -> None:
    blocks = BlockManager(16)
    ended(blocks, ALICE, PROMPT[:8])
    assert blocks.allocate(PageTable(BOB), PROMPT) == 0
    assert blocks.allocate(PageTable(NOBODY), PROMPT) == 0
    assert blocks.allocate(PageTable(ALICE), PROMPT) == 8


def test_an_open_page_is_lost_with_its_tenant_and_to_whoever_needs_the_page() -> None:
    blocks = BlockManager(3)
    ended(blocks, ALICE, PROMPT)
    blocks.forget_tenant("alice")
    blocks.check_integrity([])
    table = PageTable(ALICE)
    assert blocks.allocate(table, PROMPT) == 0
    blocks.release(table)
    ended(blocks, ALICE, PROMPT)
    table, _ = held(blocks, BOB, [9] * 48)
    blocks.release(table)
    assert blocks.allocate(PageTable(ALICE), PROMPT) == 0


def test_of_two_open_pages_after_the_same_tokens_the_newer_one_is_kept() -> None:
    blocks = BlockManager(12)
    ended(blocks, ALICE, [*PROMPT, 1])
    ended(blocks, ALICE, [*PROMPT[:33], 50, 51])
    table = PageTable(ALICE)
    assert blocks.allocate(table, [*PROMPT[:33], 50, 51, 52]) == 35
    blocks.check_integrity([table])


def test_a_poisoned_page_that_another_holds_is_reused_by_nobody_and_cleared_when_it_is_given_back() -> None:
    blocks = BlockManager(8)
    failed, _ = held(blocks, ALICE, PROMPT)
    other, num_cached = held(blocks, ALICE, PROMPT)
    assert num_cached == 32
    shared, own = set(other.pages[:2]), failed.pages[2]
    blocks.release(failed, poisoned=True)
    assert blocks.take_pages_to_zero() == [own]
    assert blocks.num_cached_pages(PageTable(ALICE), PROMPT) == 0
    assert blocks.known_pages(other, PROMPT) == [], "nor is it stored under its name"
    blocks.extend(other, 64)
    blocks.commit(other, list(range(64)), 64)
    assert blocks.num_cached_pages(PageTable(ALICE), list(range(64))) == 0, "what was computed on it is not known"
    blocks.check_integrity([other])
    blocks.release(other)
    assert set(blocks.take_pages_to_zero()) == shared
    blocks.check_integrity([])
