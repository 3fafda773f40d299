"""The gateway's text streams against a tokenizer process that is killed in the middle and started again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from quality_support import free_port

from services.gateway.detokenizer import DetokenizerLink, TextStream
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.models.store import ModelFiles
from stagemesh.runtime.channel import call_metadata, dial
from stagemesh.runtime.mesh_config import MeshConfig

MODEL = MeshConfig().default_model
PATIENT_S = 60.0
TEXT = "Déjà vu, 你好 🙂: each word of this sentence is told once, whoever tells it."


class Tokenizer:
    def __init__(self) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        environment = os.environ | {"STAGEMESH_TOKENIZER__LISTEN": self.address}
        command = [sys.executable, "-m", "services.tokenizer"]
        self.process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    def end(self, number: int) -> None:
        self.process.send_signal(number)
        self.process.wait(PATIENT_S)


@pytest.fixture
async def tokenizer(default_model_files: ModelFiles) -> AsyncIterator[Tokenizer]:
    running = Tokenizer()
    yield running
    running.end(signal.SIGKILL)


async def feed(texts: TextStream, token_ids: list[int], *, end: bool = False) -> str:
    return await texts.feed(token_ids, end=end, attempt_s=2.0, wait_s=PATIENT_S)


def is_reopened(streams: list[TextStream], before: list[int]) -> bool:
    return all(texts.num_reopened > known for texts, known in zip(streams, before, strict=True))


@pytest.mark.timeout(120)
@pytest.mark.parametrize("stopped_first", [False, True])
async def test_streams_go_on_with_no_text_lost_or_doubled(tokenizer: Tokenizer, stopped_first: bool) -> None:
    channel = dial([tokenizer.address])
    stub = tokenizer_pb2_grpc.TokenizerServiceStub(channel)
    link = DetokenizerLink(stub)
    try:
        streams = [TextStream(link, f"s{number}", MODEL) for number in range(3)]
        assert await asyncio.gather(*(feed(texts, []) for texts in streams)) == [""] * 3  # waits until it has loaded
        encode = tokenizer_pb2.EncodeRequest(model=MODEL, texts=[TEXT])
        encoded = await stub.Encode(encode, metadata=call_metadata(), timeout=PATIENT_S)
        token_ids = list(encoded.results[0].ids)
        half = len(token_ids) // 2
        before = await asyncio.gather(*(feed(texts, token_ids[:half]) for texts in streams))
        reopened = [texts.num_reopened for texts in streams]
        if stopped_first:
            tokenizer.process.send_signal(signal.SIGSTOP)
        else:
            tokenizer.end(signal.SIGKILL)
        waiting = [asyncio.create_task(feed(texts, token_ids[half:], end=True)) for texts in streams]
        if stopped_first:
            async with asyncio.timeout(PATIENT_S):
                while not is_reopened(streams, reopened):
                    await asyncio.sleep(0.05)
            tokenizer.end(signal.SIGKILL)
        tokenizer.start()
        after = await asyncio.gather(*waiting)
    finally:
        await link.close()
        await channel.close()
    assert [first + second for first, second in zip(before, after, strict=True)] == [TEXT] * 3
    assert is_reopened(streams, reopened)
