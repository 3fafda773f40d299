"""benchmarks/mixed_load.py: its figures, its command line, and what its client takes for a first token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from benchmarks import mixed_load
from benchmarks.load_client import ChatServer, NoAnswer, first_token_s, long_prompts, one_after_another
from benchmarks.mixed_load import Load, measure, parse_arguments, percentile, summary

CHUNKS = (
    b'data: {"choices": [{"delta": {"role": "assistant"}}]}\n\n',
    b": a comment\n\n",
    b'data: {"choices": [{"delta": {"content": "Hello"}}]}\n\n',
    b"data: [DONE]\n\n",
)


@asynccontextmanager
async def chat_server(chunks: tuple[bytes, ...] = CHUNKS) -> AsyncIterator[tuple[ChatServer, list[bytes]]]:
    """Answers every request with `chunks`; keeps what was asked."""
    asked: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-le")
        )
        asked.append(await reader.readexactly(length))
        writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n")
        for chunk in chunks:
            writer.write(chunk)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield ChatServer(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", "m"), asked


class Words:
    def text(self, num_tokens: int) -> str:
        return "word " * num_tokens


def test_the_figures_of_a_server_are_nearest_ranks() -> None:
    assert percentile([0.1 * number for number in range(1, 101)], 0.99) == pytest.approx(9.9)
    assert percentile([5.0], 0.99) == 5.0
    figures = summary([0.1, 0.1, 0.2], [0.1, 0.5])
    assert (figures["short_ttft_p99_unloaded_ms"], figures["short_ttft_p99_loaded_ms"], figures["ratio"]) == (
        200,
        500,
        2.5,
    )


def test_peers_are_chosen_by_name_or_left_out() -> None:
    assert parse_arguments([]).peers == ["llama_cpp", "vllm"]
    assert parse_arguments(["--peers", ""]).peers == []
    with pytest.raises(SystemExit):
        parse_arguments(["--peers", "nobody"])


async def test_both_halves_are_measured_while_long_prompts_are_in_flight() -> None:
    async with chat_server() as (server, asked):
        load = Load(count=3, num_long=2, long_tokens=500, seconds=20)
        settle_s, mixed_load.SETTLE_S = mixed_load.SETTLE_S, 0.01
        try:
            figures = await measure(server, Words(), load)  # type: ignore[arg-type]  the tokenizer's file is not needed
        finally:
            mixed_load.SETTLE_S = settle_s
    assert figures["samples"] == 3
    assert figures["ratio"] > 0
    assert sum(len(body) > 2000 for body in asked) >= 2


async def test_an_answer_without_text_is_an_error() -> None:
    async with chat_server((b'data: {"error": "no"}\n\n',)) as (server, _):
        with pytest.raises(NoAnswer, match="without text"):
            await one_after_another(server, ["hello"], 1, within_s=5, seed=1)


async def test_a_request_that_gets_no_token_counts_as_long_as_it_waited() -> None:
    async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(-1)
        writer.close()
        await writer.wait_closed()
        gone.set()

    gone = asyncio.Event()
    silent = await asyncio.start_server(never_answer, "127.0.0.1", 0)
    async with silent:
        server = ChatServer(f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}/v1", "m")
        taken_s = await one_after_another(server, ["hello"], 1, within_s=0, seed=1, patience_s=0.05)
        async with asyncio.timeout(10):
            await gone.wait()
    assert taken_s == [0.05]
    assert summary([0.1], [mixed_load.TIMEOUT_S])["gave_up"] == 1


async def test_an_error_of_a_long_prompt_is_told_at_the_end() -> None:
    async def ask_until_it_fails(server: ChatServer) -> None:
        async with long_prompts(server, lambda: "long", 1, 1), asyncio.timeout(10):
            while len(asked) < 1:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0.1)

    async with chat_server((b"data: [DONE]\n\n",)) as (server, asked):
        with pytest.raises(NoAnswer, match="without text"):
            await ask_until_it_fails(server)


async def test_the_first_token_is_the_first_text() -> None:
    async with chat_server() as (server, _), httpx.AsyncClient() as client:
        assert await first_token_s(client, server, "hello", 1) > 0
