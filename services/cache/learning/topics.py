"""Topics: groups of conversations that use the same telling words. Pure functions; no model, no randomness."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MIN_SIMILARITY = 0.12
"""Cosine below which two conversations are not on one topic."""
MERGE_SIMILARITY = 0.5
"""Cosine from which two groups are one topic."""
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
        """The topic of a text; None where none is near."""
        vector = _vector(words, self.rarity)
        best = max(self.found, key=lambda topic: _cosine(vector, topic.weights), default=None)
        return best if best is not None and _cosine(vector, best.weights) >= MIN_SIMILARITY else None


def build_topics(conversations: Sequence[Sequence[str]]) -> Topics:
    """From the words of each conversation. The same conversations give the same topics, whatever their order."""
    documents = sorted((list(words) for words in conversations if words), key=lambda words: (-len(words), words))
    rarity = _rarity(documents)
    vectors = [_vector(words, rarity) for words in documents]
    centers: list[Vector] = []
    members: list[list[Vector]] = []
    for _ in range(NUM_ROUNDS):
        members = [[] for _ in centers]
        for vector in vectors:
            at = _nearest(vector, centers)
            if at is None and len(centers) < MAX_TOPICS:
                centers.append(vector)
                members.append([])
                at = len(centers) - 1
            if at is not None:
                members[at].append(vector)
        members = _merged([group for group in members if group])
        centers = [_center(group) for group in members]
    found = [Topic(_id(center), center, len(group)) for center, group in zip(centers, members, strict=True)]
    found = [topic for topic in found if topic.num_conversations >= MIN_CONVERSATIONS]
    return Topics(sorted(found, key=lambda topic: (-topic.num_conversations, topic.topic_id)), rarity)


def _merged(groups: Sequence[list[Vector]]) -> list[list[Vector]]:
    """Groups whose centers are alike become one."""
    kept: list[list[Vector]] = []
    for group in groups:
        at = _nearest(_center(group), [_center(other) for other in kept], MERGE_SIMILARITY)
        if at is None:
            kept.append(group)
        else:
            kept[at] = kept[at] + group
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
