"""`python -m services.cache.learning.topics_child`: topics of the questions on standard input, in a process of its own.

Many questions take about a second of processor time, which the cache service must not take from the calls of sessions.
In and out are JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence

from services.cache.learning.topics import Asked, Topic, Topics, build_topics
from stagemesh.runtime.errors import Internal

MAX_INLINE = 100
"""So few questions take milliseconds; starting a process would take longer."""
TIMEOUT_S = 60.0


async def find_topics(questions: Sequence[Asked]) -> Topics:
    """Raises Internal when the child breaks down or takes too long."""
    if len(questions) <= MAX_INLINE:
        return build_topics(questions)
    return unpack_topics(await asyncio.to_thread(_run_child, pack_questions(questions)))


def _run_child(questions: bytes) -> bytes:
    command = (sys.executable, "-P", "-m", "services.cache.learning.topics_child")
    try:
        # Not by the event loop: uvloop forks, and gRPC's fork handlers complain in a process that serves calls.
        done = subprocess.run(command, input=questions, stdout=subprocess.PIPE, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise Internal("INTERNAL", f"no topics: {error}") from error
    return done.stdout


def pack_questions(questions: Sequence[Asked]) -> bytes:
    rows = [[list(asked.words), [session.hex() for session in asked.sessions]] for asked in questions]
    return json.dumps(rows, ensure_ascii=False).encode()


def unpack_questions(data: bytes) -> list[Asked]:
    return [Asked(words, frozenset(map(bytes.fromhex, sessions))) for words, sessions in json.loads(data)]


def pack_topics(topics: Topics) -> bytes:
    found = [[topic.topic_id, dict(topic.weights), topic.num_conversations] for topic in topics.found]
    return json.dumps([found, dict(topics.rarity)], ensure_ascii=False).encode()


def unpack_topics(data: bytes) -> Topics:
    found, rarity = json.loads(data)
    return Topics([Topic(*fields) for fields in found], rarity)


def main() -> None:
    sys.stdout.buffer.write(pack_topics(build_topics(unpack_questions(sys.stdin.buffer.read()))))


if __name__ == "__main__":
    main()
