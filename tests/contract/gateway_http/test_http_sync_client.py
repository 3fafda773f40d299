"""The synchronous `openai` client against a server on uvloop."""

from __future__ import annotations

import openai
from http_support import WORDS

from stagemesh.runtime.mesh_config import DEFAULT_MODEL


def test_the_sync_client_chats_and_streams(uvloop_address: str) -> None:
    question = [{"role": "user", "content": "What is the capital of France?"}]
    with openai.OpenAI(base_url=f"http://{uvloop_address}/v1", api_key="dev") as client:
        answer = client.chat.completions.create(model=DEFAULT_MODEL, messages=question)
        chunks = list(client.chat.completions.create(model=DEFAULT_MODEL, messages=question, stream=True))
        models = [model.id for model in client.models.list()]
    assert answer.choices[0].message.content == "".join(WORDS)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "".join(WORDS)
    assert models == [DEFAULT_MODEL, "gpt-4o-mini"]
