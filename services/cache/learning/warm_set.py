"""Which beginnings of conversations are kept ready, and on which topics they are."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from services.cache.knowledge.analysis import query_words
from services.cache.learning.config import LearningConfig
from services.cache.learning.question import Question, Remembered
from services.cache.learning.topics import Asked, Topic, Topics

MAX_WORDS = 64
MAX_QUESTIONS = 1_000
"""Questions from which topics are made, the hottest."""


@dataclass(frozen=True)
class WarmQuestion:
    question: Question
    topic: Topic | None


@dataclass(frozen=True)
class WarmSet:
    """What is to be kept ready for one tenant, the hottest first."""

    topics: Topics = Topics()  # noqa: RUF009  # immutable
    questions: Sequence[WarmQuestion] = ()

    def of_topic(self, topic_id: str) -> list[Question]:
        return [entry.question for entry in self.questions if entry.topic and entry.topic.topic_id == topic_id]

    def without(self, keys: Container[bytes]) -> WarmSet:
        return replace(self, questions=[entry for entry in self.questions if entry.question.key not in keys])


def words_of(text: str) -> list[str]:
    """The words by which topics are told apart; a plural counts as its singular."""
    return [_singular(word) for word in query_words(text, MAX_WORDS)]


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def asked_by(remembered: Sequence[Remembered]) -> list[Asked]:
    """What topics are made from."""
    hottest = remembered[:MAX_QUESTIONS]
    return [Asked(words_of(entry.question.text), frozenset(entry.session_tags)) for entry in hottest]


def choose(remembered: Sequence[Remembered], topics: Topics, config: LearningConfig) -> WarmSet:
    """`remembered` comes hottest first."""
    shared = (entry.question for entry in remembered if entry.question.begins and entry.num_users >= config.min_users)
    chosen = [question for question, _ in zip(shared, range(config.max_prefixes), strict=False)]
    return WarmSet(topics, [WarmQuestion(question, topics.classify(words_of(question.text))) for question in chosen])
