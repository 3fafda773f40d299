"""Recorded conversations, as `stagemesh cache warm` sends them."""

from __future__ import annotations

from collections.abc import Iterator

from services.cache.learning.question import Asker, Question
from stagemesh.api.cache.v1.learning_pb2 import Dialogue


def asked_in(dialogue: Dialogue) -> Iterator[tuple[Question, Asker]]:
    """Its questions, each with who asked; what is too long to be a question is left out."""
    asker = Asker(dialogue.session_id, dialogue.user_id)
    for number, turn in enumerate(dialogue.turns):
        question = Question(turn.q, begins=True, system=dialogue.system) if number == 0 else Question(turn.q)
        if question.is_rememberable():
            yield question, asker
