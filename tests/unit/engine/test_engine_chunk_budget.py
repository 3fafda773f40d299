from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from services.engine.chunk_budget import MIN_CHUNK, ChunkBudget, share_budget


@given(st.lists(st.integers(2, 5000), max_size=20), st.integers(16, 1024))
def test_shares_use_the_whole_budget_and_no_more(needs: list[int], budget: int) -> None:
    shares = share_budget(needs, budget)
    assert sum(shares) == min(sum(needs), budget)
    assert all(0 <= share <= need for share, need in zip(shares, needs, strict=True))


@given(st.lists(st.integers(2, 5000), min_size=1, max_size=20), st.integers(16, 1024))
def test_the_oldest_is_never_starved(needs: list[int], budget: int) -> None:
    assert share_budget(needs, budget)[0] >= min(needs[0], budget // 4)


def test_the_shortest_goes_first() -> None:
    assert share_budget([1000, 400, 30], 100) == [25, 45, 30]


def test_prompt_chunks_shrink_while_sequences_decode() -> None:
    budget = ChunkBudget(chunk_size=512, max_step_ms=100)
    assert budget.tokens(num_decoding=3) == 512, "nothing is known yet"
    budget.measured(1.0, num_prompt_tokens=500, num_decoding=0)
    assert budget.tokens(num_decoding=3) == 50
    assert budget.tokens(num_decoding=0) == 512, "nobody is held up"


def test_chunks_never_shrink_to_nothing() -> None:
    budget = ChunkBudget(chunk_size=512, max_step_ms=100)
    budget.measured(60.0, num_prompt_tokens=500, num_decoding=0)
    budget.measured(0.5, num_prompt_tokens=0, num_decoding=3)
    assert budget.tokens(num_decoding=3) == MIN_CHUNK


def test_a_limit_of_zero_keeps_chunks_whole() -> None:
    budget = ChunkBudget(chunk_size=512, max_step_ms=0)
    budget.measured(60.0, num_prompt_tokens=500, num_decoding=1)
    assert budget.tokens(num_decoding=3) == 512
