"""What counts as a session hit, and that the made-up conversations are always the same."""

from __future__ import annotations

import pytest

from benchmarks.dialogues import NUM_SESSIONS, NUM_USERS, SUBJECTS, make_dialogues, split
from benchmarks.session_hits import Request, first_sessions, is_hit, reusable_tokens, tally
from stagemesh.api.cache.v1.cache_pb2 import CacheUse
from stagemesh.api.common.v1.common_pb2 import KvReport


def use(prompt: int, *, session: int = 0, pool: int = 0, host: int = 0, store: int = 0, cause: str = "") -> CacheUse:
    kv = KvReport(pool_tokens=pool, host_tokens=host, store_tokens=store, miss_cause=cause)
    return CacheUse(prompt_tokens=prompt, session_tokens=session, kv=kv)


@pytest.mark.parametrize(
    ("prompt", "session", "reusable"),
    [(64, 0, 48), (65, 0, 64), (17, 0, 16), (16, 0, 0), (0, 0, 0), (200, 100, 96), (200, 97, 96), (200, 96, 80)],
)
def test_what_could_be_known_before_counts_in_whole_pages(prompt: int, session: int, reusable: int) -> None:
    assert reusable_tokens(use(prompt, session=session)) == reusable


def test_a_hit_is_the_whole_reusable_prefix_from_wherever_it_came() -> None:
    assert is_hit(use(100, pool=32, host=32, store=32))
    assert not is_hit(use(100, pool=80))
    assert is_hit(use(100, session=50, store=48))


def test_the_ratio_is_of_all_requests_and_misses_have_causes() -> None:
    requests = [Request("a", is_first=True), Request("b", is_first=True), Request("c", is_first=False)]
    found = tally(requests, [use(100), use(100, pool=96), use(100, session=50, pool=16, cause="EVICTED")])
    assert (found.requests, found.hits, found.first_turns, found.first_hits) == (3, 1, 2, 1)
    assert found.ratio == pytest.approx(1 / 3)
    assert found.misses == {"OTHER": 1, "EVICTED": 1}


def test_a_seed_makes_the_same_conversations_of_all_users_on_three_topics() -> None:
    dialogues = make_dialogues(1)
    assert dialogues == make_dialogues(1) != make_dialogues(2)
    assert (len(dialogues), len({dialogue.user_id for dialogue in dialogues})) == (NUM_SESSIONS, NUM_USERS)
    assert len(SUBJECTS) == 3
    openings = {question for subject in SUBJECTS for question in subject.beginnings()}
    assert {dialogue.turns[0].q for dialogue in dialogues} <= openings


def test_unseen_users_are_not_in_the_log() -> None:
    logged, unseen = split(make_dialogues(1), seed=1, unseen_share=0.2)
    assert len(logged) + len(unseen) == NUM_SESSIONS
    assert not {dialogue.user_id for dialogue in logged} & {dialogue.user_id for dialogue in unseen}
    asked = first_sessions(unseen, max_users=5, max_sessions=2)
    assert len({dialogue.user_id for dialogue in asked}) == 5
    assert len(asked) <= 10
