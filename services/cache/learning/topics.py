"""Topics: questions that use the same telling words, or follow each other in conversations.

Pure functions; no model, no randomness.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MIN_NEARNESS, MIN_MARGIN = 0.04, 1.5
"""Least cosine of a text with the center of its topic, and how much nearer than the next that one must be."""
MIN_SIMILARITY = 0.3
"""Cosine below which two questions have too little in common to be put together for their words."""
MERGE_SIMILARITY = 0.5
"""Cosine from which two groups are one topic."""
MIN_LIFT = 1.5
"""Groups are one topic if conversations hold both of them so much more often than by chance."""
MIN_SHARED = 3
"""Fewer conversations are no evidence."""
MIN_CONVERSATIONS = 2
MAX_TOPICS = 64
MAX_WORDS = 512
"""Words by which a topic is known, the heaviest."""
NUM_ROUNDS = 3

Vector = Mapping[str, float]


@dataclass(frozen=True)
class Topic:
    topic_id: str
    """Follows from its words."""
    weights: Vector
    """Of length 1."""
    num_conversations: int

    def telling(self, count: int = 8) -> list[str]:
        return sorted(self.weights, key=lambda word: (-self.weights[word], word))[:count]


@dataclass(frozen=True)
class Topics:
    """The greatest first."""

    found: Sequence[Topic] = ()
    rarity: Vector = field(default_factory=dict)
    """How much each word tells."""

    def classify(self, words: Sequence[str]) -> Topic | None:
        """The topic of a text; None where none is near, or two are as near."""
        vector = _vector(words, self.rarity)
        ranked = sorted(((_cosine(vector, topic.weights), -at) for at, topic in enumerate(self.found)), reverse=True)
        if not ranked or ranked[0][0] < MIN_NEARNESS:
            return None
        if len(ranked) > 1 and ranked[0][0] < MIN_MARGIN * ranked[1][0]:
            return None
        return self.found[-ranked[0][1]]


@dataclass(frozen=True)
class Asked:
    """One question, as often as it was asked."""

    words: Sequence[str]
    sessions: frozenset[bytes] = frozenset()
    """Conversations in which it was asked."""


def build_topics(questions: Sequence[Asked]) -> Topics:
    """The same questions give the same topics, whatever their order.

    Questions that use the same words are one group; groups between which conversations pass far more often than by
    chance are one topic, whatever their words.
    """
    known = sorted((asked for asked in questions if asked.words), key=lambda asked: (-len(asked.words), *asked.words))
    rarity = _rarity([asked.words for asked in known])
    vectors = [_vector(asked.words, rarity) for asked in known]
    topics = _joined(_grouped(vectors), _going_on([asked.sessions for asked in known]))
    found = []
    for members in topics:
        center = _center([vectors[at] for at in members])
        sessions = frozenset[bytes]().union(*(known[at].sessions for at in members))
        if center and len(sessions) >= MIN_CONVERSATIONS:
            found.append(Topic(_id(center), center, len(sessions)))
    return Topics(sorted(found, key=lambda topic: (-topic.num_conversations, topic.topic_id)), rarity)


def _grouped(vectors: Sequence[Vector]) -> list[list[int]]:
    """Indices of vectors that are near each other."""
    centers: list[Vector] = []
    members: list[list[int]] = []
    for _ in range(NUM_ROUNDS):
        members = [[] for _ in centers]
        for index, vector in enumerate(vectors):
            at = _nearest(vector, centers)
            if at is None and len(centers) < MAX_TOPICS:
                centers.append(vector)
                members.append([])
                at = len(centers) - 1
            if at is not None:
                members[at].append(index)
        members = _merged([group for group in members if group], vectors)
        centers = [_center([vectors[at] for at in group]) for group in members]
    return members


def _going_on(sessions: Sequence[frozenset[bytes]]) -> list[frozenset[bytes]]:
    """Without conversations of a single question, which connect nothing."""
    counts = Counter(session for of_question in sessions for session in of_question)
    return [frozenset(session for session in of_question if counts[session] > 1) for of_question in sessions]


def _joined(groups: Sequence[list[int]], sessions: Sequence[frozenset[bytes]]) -> list[list[int]]:
    """The most strongly connected pair becomes one, until no pair has more in common than chance would explain."""
    topics = [list(group) for group in groups]
    reached = [frozenset[bytes]().union(*(sessions[at] for at in group)) for group in topics]
    total = len(frozenset[bytes]().union(*reached)) if reached else 0
    while True:
        pairs = [(_lift(reached[i], reached[j], total), -i, -j) for j in range(len(topics)) for i in range(j)]
        strength, i, j = max(pairs, default=(0.0, 0, 0))
        if strength < MIN_LIFT:
            return topics
        topics[-i] += topics.pop(-j)
        reached[-i] |= reached.pop(-j)


def _lift(one: frozenset[bytes], other: frozenset[bytes], total: int) -> float:
    """How many conversations both have, over the number that chance would give them."""
    both = len(one & other)
    return both * total / (len(one) * len(other)) if both >= MIN_SHARED else 0.0


def _merged(groups: Sequence[list[int]], vectors: Sequence[Vector]) -> list[list[int]]:
    """Groups whose centers are alike become one."""
    kept: list[list[int]] = []
    centers: list[Vector] = []
    for group in groups:
        center = _center([vectors[at] for at in group])
        at = _nearest(center, centers, MERGE_SIMILARITY)
        if at is None:
            kept.append(list(group))
            centers.append(center)
        else:
            kept[at] += group
            centers[at] = _center([vectors[index] for index in kept[at]])
    return kept


def _rarity(documents: Sequence[Sequence[str]]) -> dict[str, float]:
    """What a word tells: nothing if it is in nearly all conversations."""
    counts = Counter(word for words in documents for word in set(words))
    return {word: math.log(1.0 + len(documents) / count) - math.log(2.0) for word, count in counts.items()}


def _vector(words: Sequence[str], rarity: Vector) -> Vector:
    counts = Counter(word for word in words if word in rarity)
    return _unit({word: (1.0 + math.log(count)) * rarity[word] for word, count in counts.items()})


def _unit(weights: Vector) -> Vector:
    length = math.sqrt(sum(weight * weight for weight in weights.values()))
    return {word: weight / length for word, weight in weights.items()} if length else {}


def _center(vectors: Sequence[Vector]) -> Vector:
    total: Counter[str] = Counter()
    for vector in vectors:
        for word, weight in vector.items():
            total[word] += weight  # type: ignore[assignment]  # typeshed counts in integers; any number works
    heaviest = sorted(total, key=lambda word: (-total[word], word))[:MAX_WORDS]
    return _unit({word: float(total[word]) for word in heaviest})


def _cosine(one: Vector, other: Vector) -> float:
    small, large = (one, other) if len(one) <= len(other) else (other, one)
    return sum(weight * large.get(word, 0.0) for word, weight in small.items())


def _nearest(vector: Vector, centers: Sequence[Vector], least: float = MIN_SIMILARITY) -> int | None:
    at = max(range(len(centers)), key=lambda index: _cosine(vector, centers[index]), default=None)
    return at if at is not None and _cosine(vector, centers[at]) >= least else None


def _id(center: Vector) -> str:
    names = "\n".join(sorted(center, key=lambda word: (-center[word], word))[:16])
    return hashlib.blake2b(names.encode(), digest_size=6).hexdigest()
