"""Which beginnings of conversations are kept ready, and on which topics they are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from services.cache.knowledge.analysis import query_words
from services.cache.learning.config import LearningConfig
from services.cache.learning.question import Question, Remembered
from services.cache.learning.topics import Topic, Topics, build_topics

MAX_WORDS = 64
MAX_CONVERSATIONS = 4_000
"""Conversations from which topics are made, at most."""


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


def words_of(text: str) -> list[str]:
    """The words by which topics are told apart; a plural counts as its singular."""
    return [word[:-1] if len(word) > 3 and word.endswith("s") else word for word in query_words(text, MAX_WORDS)]


def build_warm_set(remembered: Sequence[Remembered], config: LearningConfig) -> WarmSet:
    """`remembered` comes hottest first. Takes milliseconds for hundreds of conversations."""
    conversations: dict[bytes, list[str]] = defaultdict(list)
    for entry in remembered:
        words = words_of(entry.question.text)
        for session in entry.session_tags:
            if session in conversations or len(conversations) < MAX_CONVERSATIONS:
                conversations[session] += words
    topics = build_topics(list(conversations.values()))
    shared = (entry.question for entry in remembered if entry.question.begins and entry.num_users >= config.min_users)
    chosen = [question for question, _ in zip(shared, range(config.max_prefixes), strict=False)]
    return WarmSet(topics, [WarmQuestion(question, topics.classify(words_of(question.text))) for question in chosen])
