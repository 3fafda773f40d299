"""A client of any server with OpenAI's streaming chat: the time to the first token, and load that keeps coming."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT_S = 300.0
PAUSE_S = 0.1
"""The longest pause between two short requests; a random one, so that steps are met at any moment."""


class NoAnswer(Exception):
    """A server refused a request, or answered without a text; the message has what it said."""


@dataclass(frozen=True)
class ChatServer:
    base_url: str
    model: str
    key: str = "none"

    def body(self, text: str, num_output: int) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        sampling = {"temperature": 0, "max_tokens": num_output, "seed": 1}
        return {"model": self.model, "messages": messages, "stream": True, **sampling}


@dataclass
class LongLoad:
    """What clients of long prompts have seen."""

    num_started: int = 0
    ttft_s: list[float] = field(default_factory=list)


async def first_token_s(client: httpx.AsyncClient, server: ChatServer, text: str, num_output: int) -> float:
    """Seconds from sending one request to the first text; reads the answer to its end. Raises NoAnswer."""
    started_s, first_s, said = time.perf_counter(), 0.0, ""
    headers = {"authorization": f"Bearer {server.key}"}
    url = f"{server.base_url}/chat/completions"
    async with client.stream("POST", url, json=server.body(text, num_output), headers=headers) as response:
        if response.status_code != 200:
            raise NoAnswer(f"{url}: {response.status_code} {(await response.aread()).decode()[:500]}")
        async for line in response.aiter_lines():
            said = line if line.startswith("data: {") else said
            if not first_s and _has_text(line):
                first_s = time.perf_counter() - started_s
    if not first_s:
        raise NoAnswer(f"{url}: an answer without text: {said}")
    return first_s


def _has_text(line: str) -> bool:
    if not line.startswith("data: {"):
        return False
    choices = json.loads(line.removeprefix("data: ")).get("choices") or [{}]
    return bool(choices[0].get("delta", {}).get("content"))


async def one_after_another(
    server: ChatServer,
    texts: list[str],
    num_output: int,
    *,
    within_s: float,
    seed: int,
    patience_s: float = TIMEOUT_S,
) -> list[float]:
    """Times to the first token of requests that come one after another, until `within_s` have gone by.

    A request that is not answered within `patience_s` counts as that long, which is less than the truth.
    """
    pauses, taken = random.Random(seed), list[float]()
    until_s = time.perf_counter() + within_s
    async with httpx.AsyncClient(timeout=patience_s) as client:
        for text in texts:
            try:
                taken.append(await first_token_s(client, server, text, num_output))
            except httpx.ReadTimeout:
                taken.append(patience_s)
            if time.perf_counter() > until_s:
                break
            await asyncio.sleep(pauses.uniform(0, PAUSE_S))
    return taken


@asynccontextmanager
async def long_prompts(
    server: ChatServer, make_text: Callable[[], str], num_clients: int, num_output: int
) -> AsyncIterator[LongLoad]:
    """Keep so many long prompts in flight: each client sends the next as soon as it has its answer."""
    load = LongLoad()

    async def keep_asking(client: httpx.AsyncClient) -> None:
        while True:
            load.num_started += 1
            load.ttft_s.append(await first_token_s(client, server, make_text(), num_output))

    limits = httpx.Limits(max_connections=num_clients)
    async with httpx.AsyncClient(timeout=10 * TIMEOUT_S, limits=limits) as client:
        tasks = [asyncio.create_task(keep_asking(client)) for _ in range(num_clients)]
        try:
            yield load
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
