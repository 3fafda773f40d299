"""Topics, streaks and what is kept ready, without servers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cache.learning.config import LearningConfig
from services.cache.learning.observer import question_of
from services.cache.learning.question import Asker, Question, Remembered, unpack
from services.cache.learning.streaks import Beginnings, Streaks
from services.cache.learning.topics import Asked, Topics, build_topics
from services.cache.learning.topics_child import MAX_INLINE, find_topics, pack_questions, unpack_questions
from services.cache.learning.warm_set import choose, words_of
from stagemesh.api.common.v1.common_pb2 import ChatMessage
from stagemesh.runtime.kv_keys import PAGE_TOKENS

INVOICES = ["invoice", "order", "payment", "tax", "number", "electronic", "refund"]
ROUTERS = ["router", "wireless", "network", "cable", "password", "signal", "restart"]
WORDS = st.lists(st.sampled_from([*INVOICES, *ROUTERS, "please", "today"]), max_size=12)


def asked(words: list[str], *sessions: int) -> Asked:
    return Asked(words, frozenset(b"%d" % session for session in sessions))


def questions(seed: int, count: int = 40) -> list[Asked]:
    """On two topics in turn, each with two ways to ask that share no word; a conversation has both."""
    draw = random.Random(seed)
    found = []
    for session in range(count):
        words = (INVOICES, ROUTERS)[session % 2]
        found.append(asked([*draw.sample(words[:4], 3), "question"], session))
        found.append(asked([*draw.sample(words[4:], 2), "question"], session))
    return found


def test_words_and_the_conversations_that_pass_between_them_make_topics() -> None:
    topics = build_topics(questions(seed=1))
    assert [topic.num_conversations for topic in topics.found] == [20, 20]
    for words in (INVOICES, ROUTERS):
        topic = topics.classify(words[:2])
        assert topic is not None
        assert topic == topics.classify(words[5:])
        assert set(topic.telling(5)) <= set(words)


def test_words_that_nobody_used_or_that_all_use_are_on_no_topic() -> None:
    topics = build_topics(questions(seed=1))
    assert topics.classify(["volcano", "sonata"]) is None
    assert topics.classify(["question"]) is None
    assert topics.classify([INVOICES[0], ROUTERS[0]]) is None
    assert topics.classify([]) is None
    assert Topics().classify(INVOICES) is None


@given(st.lists(st.builds(asked, WORDS, st.integers(0, 9), st.integers(0, 9)), max_size=30), st.randoms())
def test_topics_do_not_depend_on_the_order_of_questions(found: list[Asked], shuffled: random.Random) -> None:
    other = list(found)
    shuffled.shuffle(other)
    assert build_topics(other) == build_topics(found)


async def test_many_questions_are_looked_at_in_a_process_of_its_own_with_the_same_result() -> None:
    many = questions(seed=1, count=MAX_INLINE)
    assert len(many) > MAX_INLINE
    assert await find_topics(many) == build_topics(many)
    assert await find_topics(many[:MAX_INLINE]) == build_topics(many[:MAX_INLINE])


@given(st.lists(st.builds(asked, WORDS, st.integers(0, 9)), max_size=10))
def test_questions_survive_packing(found: list[Asked]) -> None:
    assert unpack_questions(pack_questions(found)) == found


@given(st.lists(st.sampled_from(["a", "b", ""]), max_size=30))
def test_a_streak_counts_turns_in_a_row_on_one_topic(topics: list[str]) -> None:
    streaks, expected, last = Streaks(), 0, ""
    for topic in topics:
        expected = 0 if not topic else expected + 1 if topic == last else 1
        last = topic
        assert streaks.turn("t", "s", topic) == expected
        assert streaks.turn("t", "another", "x") >= 1


def test_streaks_of_tenants_and_sessions_are_apart_and_can_be_forgotten() -> None:
    streaks = Streaks()
    assert [streaks.turn("t", "s", "a") for _ in range(3)] == [1, 2, 3]
    assert (streaks.turn("u", "s", "a"), streaks.turn("t", "r", "a")) == (1, 1)
    streaks.forget("t", "s")
    assert streaks.turn("t", "s", "a") == 1


def test_what_conversations_share_is_counted_in_whole_pages() -> None:
    beginnings, common = Beginnings(), list(range(2 * PAGE_TOKENS + 5))
    assert beginnings.shared("t", "topic", "one", "ann", [*common, 1, 2, 3]) == 0
    assert beginnings.shared("t", "topic", "one", "ann", [*common, 1, 2, 3]) == 0, "with itself it shares nothing"
    assert beginnings.shared("t", "topic", "two", "bob", [*common, 7]) == 2 * PAGE_TOKENS
    assert beginnings.shared("u", "topic", "three", "cem", common) == 0
    assert beginnings.shared("t", "other", "three", "cem", common) == 0


@pytest.mark.parametrize("who", [{"session_id": "one"}, {"user_id": "ann"}])
def test_a_beginning_is_forgotten_with_its_session_or_user(who: dict[str, str]) -> None:
    beginnings = Beginnings()
    beginnings.shared("t", "topic", "one", "ann", range(100))
    beginnings.forget("t", **who)
    assert beginnings.shared("t", "topic", "two", "bob", range(100)) == 0


@given(st.text(), st.booleans(), st.text())
def test_a_question_survives_packing(text: str, begins: bool, system: str) -> None:
    question = Question(text, begins, system)
    try:
        packed = question.pack()
    except UnicodeEncodeError:
        return  # half a surrogate pair is no text
    assert unpack(packed) == question


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b"\xff", b"[1,2,3]", b"[1,2,3,4]", b"null"])
def test_what_is_no_question_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a question"):
        unpack(data)


def remembered(text: str, *askers: Asker, heat: float = 1.0, begins: bool = True) -> Remembered:
    return Remembered(Question(text, begins), heat, b"".join(asker.tags for asker in askers))


def test_only_beginnings_that_several_users_asked_are_kept_ready() -> None:
    ann, again, bob = Asker("1", "ann"), Asker("2", "ann"), Asker("3", "bob")
    found = [
        remembered("one user, two sessions", ann, again),
        remembered("two users", ann, bob),
        remembered("in the middle", ann, bob, begins=False),
        remembered("two sessions without users", Asker("4"), Asker("5")),
    ]
    chosen = choose(found, Topics(), LearningConfig()).questions
    assert [entry.question.text for entry in chosen] == ["two users", "two sessions without users"]


def test_no_more_is_kept_ready_than_the_bound_and_the_hottest_first() -> None:
    users = [Asker("1", "ann"), Asker("2", "bob")]
    found = [remembered(f"question {number}", *users, heat=10.0 - number) for number in range(9)]
    chosen = choose(found, Topics(), LearningConfig(max_prefixes=3)).questions
    assert [entry.question.text for entry in chosen] == ["question 0", "question 1", "question 2"]


def messages(*said: tuple[str, str]) -> list[ChatMessage]:
    return [ChatMessage(role=role, content=content) for role, content in said]


def test_a_beginning_has_one_question_and_at_most_a_system_message_before_it() -> None:
    plain, answer = ("user", "q"), ("assistant", "a")
    assert question_of(messages(plain, answer), begins=True) == Question("q", True)
    assert question_of(messages(("system", "s"), plain, answer), begins=True) == Question("q", True, "s")
    assert question_of(messages(plain, answer), begins=False) == Question("q")
    assert question_of(messages(("user", "p"), answer, plain, answer), begins=True) == Question("q")
    assert question_of(messages(answer), begins=True) is None


def test_a_plural_and_its_singular_are_one_word() -> None:
    assert words_of("Invoices") == words_of("an invoice")
    assert words_of("发票在哪里")  # pairs of characters
