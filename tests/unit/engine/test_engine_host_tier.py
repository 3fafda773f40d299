"""The tier in host memory: bounded, fair between namespaces, and what it gives is what was put."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from services.engine.kv.host_tier import ENTRY_BYTES, AsIs, HostTier
from services.engine.kv.page_codec import Value

SIZE = 1000
PAGE = SIZE + ENTRY_BYTES
A, B, C = b"a:", b"b:", b"c:"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def digest(number: int, chain: str = "") -> bytes:
    return hashlib.sha256(f"{chain}{number}".encode()).digest()


def value(name: bytes, size: int = SIZE) -> bytes:
    return (name * (size // len(name) + 1))[:size]


def chain(numbers: Sequence[int], of: str = "") -> list[tuple[bytes, bytes]]:
    return [(digest(number, of), value(digest(number, of))) for number in numbers]


def tier(num_pages: int, clock: Clock | None = None) -> HostTier:
    return HostTier(num_pages * PAGE, clock=clock or Clock(), max_idle_s=1000, decay_s=100)


def held(pages: HostTier, namespace: bytes, numbers: Sequence[int], of: str = "") -> list[int]:
    return [number for number in numbers if pages.num_leading(namespace, [digest(number, of)])]


def test_what_was_put_comes_back_as_far_as_the_chain_is_held() -> None:
    pages = tier(10)
    assert pages.put(A, chain([0, 1, 2])) == 3
    wanted = [digest(number) for number in (0, 1, 2, 3)]
    assert pages.get(A, wanted) == [value(name) for name in wanted[:3]]
    assert pages.num_leading(A, wanted) == 3
    assert pages.num_leading(A, wanted[::-1]) == 0
    stats = pages.stats()
    assert (stats.hits, stats.misses, stats.num_pages, stats.num_bytes) == (3, 1, 3, 3 * PAGE)


def test_a_namespace_does_not_see_what_another_one_holds() -> None:
    pages = tier(10)
    pages.put(A, chain([0]))
    assert pages.get(B, [digest(0)]) == []
    assert pages.forget(B) == 0
    assert pages.num_leading(A, [digest(0)]) == 1


def test_a_chain_longer_than_the_budget_keeps_its_beginning() -> None:
    pages = tier(4)
    assert pages.put(A, chain(range(9))) == 4
    assert held(pages, A, range(9)) == [0, 1, 2, 3]


def test_a_value_larger_than_the_budget_is_refused_and_evicts_nothing() -> None:
    pages = tier(2)
    pages.put(A, chain([0, 1]))
    assert pages.put(B, [(digest(5), bytes(3 * PAGE))]) == 0
    assert held(pages, A, [0, 1]) == [0, 1]


def test_what_is_used_often_outlives_what_is_newer() -> None:
    clock = Clock()
    pages = tier(3, clock)
    pages.put(A, chain([0]))
    for _ in range(5):
        pages.get(A, [digest(0)])
    clock.now_s += 50
    pages.put(A, chain([1], "b") + chain([2], "c"))
    clock.now_s += 50
    pages.put(A, chain([3], "d"))
    assert held(pages, A, [0]) == [0]
    assert held(pages, A, [2], "c") == []
    clock.now_s += 400  # its heat is gone
    pages.put(A, chain(range(4, 7), "e"))
    assert held(pages, A, [0]) == []


def test_one_namespace_that_stores_without_end_leaves_the_others_their_share() -> None:
    pages = tier(9)
    pages.put(A, chain(range(3), "a"))
    pages.put(B, chain(range(2), "b"))
    for number in range(100):
        pages.put(C, chain([number], "c"))
    assert held(pages, A, range(3), "a") == [0, 1, 2]
    assert held(pages, B, range(2), "b") == [0, 1]
    assert pages.bytes_of(C) == 4 * PAGE


def test_whoever_holds_more_than_its_share_gives_it_up_to_a_newcomer() -> None:
    pages = tier(8)
    pages.put(A, chain(range(8), "a"))
    pages.put(B, chain(range(8), "b"))
    assert (pages.bytes_of(A), pages.bytes_of(B)) == (4 * PAGE, 4 * PAGE)
    assert held(pages, A, range(8), "a") == [0, 1, 2, 3]


def test_what_nobody_uses_makes_room_before_anything_else() -> None:
    clock = Clock()
    pages = tier(4, clock)
    pages.put(A, chain([0, 1], "a"))
    clock.now_s += 900
    pages.get(A, [digest(0, "a")])
    pages.put(B, chain([0], "b"))
    clock.now_s += 200
    pages.put(B, chain([1], "b"))
    assert held(pages, A, [0, 1], "a") == [0]
    assert pages.stats().expired == 1


def test_what_is_forgotten_is_gone() -> None:
    pages = tier(10)
    pages.put(A, chain(range(4)))
    pages.put(B, chain(range(2)))
    assert pages.forget(A, [digest(3), digest(9)]) == 1
    assert held(pages, A, range(4)) == [0, 1, 2]
    assert pages.forget(A) == 3
    assert held(pages, A, range(4)) == []
    assert pages.bytes_of(B) == 2 * PAGE
    pages.check_integrity()


class Halved:
    """Values in these tests repeat, so half of them says all."""

    def pack(self, value: bytes) -> bytes:
        return value[: len(value) // 2]

    def unpack(self, packed: bytes) -> bytes:
        return packed * 2


def test_the_budget_counts_packed_bytes() -> None:
    pages = HostTier(2 * (500 + ENTRY_BYTES), packing=Halved())
    pairs = [(digest(number), bytes([number]) * 1000) for number in range(2)]
    assert pages.put(A, pairs) == 2
    assert pages.get(A, [name for name, _ in pairs]) == [content for _, content in pairs]


def test_what_is_void_by_the_time_it_is_packed_is_not_kept() -> None:
    erased: list[bool] = []

    class Slow(AsIs):
        def pack(self, value: Value) -> Value:
            pages.forget(A)  # nobody waits for packing
            erased.append(True)
            return value

    pages = HostTier(10_000, packing=Slow())
    assert pages.put(A, [(digest(1), b"x")], is_void=lambda: bool(erased)) == 0
    assert pages.stats().num_pages == 0


def test_threads_that_put_take_and_forget_at_once_leave_it_whole() -> None:
    pages = tier(20)
    wrong: list[bytes] = []

    def work(number: int) -> None:
        namespace = (A, B, C)[number % 3]
        for turn in range(150):
            numbers = [(turn * number + place) % 40 for place in range(6)]
            pages.put(namespace, chain(numbers))
            names = [digest(number) for number in numbers]
            wrong.extend(
                got for name, got in zip(names, pages.get(namespace, names), strict=False) if got != value(name)
            )
            if turn % 50 == 49:
                pages.forget(namespace, names[:2])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong
    pages.check_integrity()


class HostTierMachine(RuleBasedStateMachine):
    """Any order of calls: contents are right, the budget holds, and others keep at least their fair share."""

    @initialize(num_pages=st.integers(1, 12))
    def start(self, num_pages: int) -> None:
        self.clock = Clock()
        self.pages = HostTier(num_pages * PAGE, clock=self.clock, max_idle_s=500, decay_s=60)

    @rule(
        namespace=st.sampled_from([A, B, C]),
        numbers=st.lists(st.integers(0, 15), max_size=8, unique=True),
        size=st.integers(1, SIZE),
    )
    def put(self, namespace: bytes, numbers: list[int], size: int) -> None:
        before = {name: self.pages.bytes_of(name) for name in (A, B, C)}
        expired = self.pages.stats().expired
        pairs = [(digest(number), value(digest(number), size)) for number in numbers]
        self.pages.put(namespace, pairs)
        if self.pages.stats().expired > expired:
            return
        share = self.pages.max_bytes / (sum(num_bytes > 0 for num_bytes in before.values()) + (not before[namespace]))
        for other in {A, B, C} - {namespace}:
            assert self.pages.bytes_of(other) >= min(before[other], share - PAGE)

    @rule(namespace=st.sampled_from([A, B, C]), numbers=st.lists(st.integers(0, 15), max_size=8))
    def get(self, namespace: bytes, numbers: list[int]) -> None:
        names = [digest(number) for number in numbers]
        num_leading = self.pages.num_leading(namespace, names)
        found = self.pages.get(namespace, names)
        assert len(found) == num_leading
        assert all(got == value(name, len(got)) for name, got in zip(names, found, strict=False))

    @rule(namespace=st.sampled_from([A, B, C]), numbers=st.none() | st.lists(st.integers(0, 15), max_size=3))
    def forget(self, namespace: bytes, numbers: list[int] | None) -> None:
        names = None if numbers is None else [digest(number) for number in numbers]
        gone = [digest(number) for number in range(16)] if names is None else names
        self.pages.forget(namespace, names)
        assert not any(self.pages.num_leading(namespace, [name]) for name in gone)

    @rule(seconds=st.floats(0, 300))
    def wait(self, seconds: float) -> None:
        self.clock.now_s += seconds

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "pages"):
            self.pages.check_integrity()


TestHostTierMachine = HostTierMachine.TestCase
TestHostTierMachine.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_the_tables_do_not_grow_with_calls() -> None:
    pages = tier(3)
    for number in range(400):
        pages.put(A, chain([number % 5]))
        pages.forget(A, [digest(number % 5)])
    pages.put(A, chain([1]))
    assert len(pages._spaces[A].heap) < 40
