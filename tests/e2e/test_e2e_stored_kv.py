"""A conversation's keys and values outlive the mesh, and go with it to another engine."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from mesh_support import Mesh, wait_until

from stagemesh.models.store import ModelFiles

MODEL = "smollm2-135m-instruct"
HISTORY = "The harbour of Lisbon lies on the Tagus, and its pilots speak of the tides with respect. " * 20


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, default_model_files: ModelFiles) -> Iterator[Mesh]:
    """A mesh with two engines."""
    running = Mesh(tmp_path_factory.mktemp("pair"), engines=2)
    running.up()
    yield running
    running.down()


def say(mesh: Mesh, session: str, text: str, api_key: str = "dev") -> dict[str, Any]:
    """One turn, or a request without a session; gives the request ID, the text and the stage reports by name."""
    answer = mesh.openai(api_key).chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": text}],
        max_tokens=8,
        temperature=0,
        extra_body={"session_id": session} if session else {},
        user="u",
    )
    extra = (answer.model_extra or {})["stagemesh"]
    assert extra["outcome"] == "complete"
    return {
        "request_id": extra["request_id"],
        "text": answer.choices[0].message.content,
        "stages": {stage["name"]: stage for stage in extra["stages"]},
    }


def explain(mesh: Mesh, request_id: str) -> dict[str, Any]:
    """What the cache service remembers of a request."""
    found: list[dict[str, Any]] = []

    def is_known() -> bool:
        done = mesh.command("cache", "explain", request_id, "--json", check=False)
        if done.returncode == 0:
            found.append(json.loads(done.stdout))
        return bool(found)

    wait_until(is_known, 20, "explanation")
    return found[0]


def stored_pages(mesh: Mesh) -> int:
    tenants = json.loads(mesh.command("cache", "stats", "--json").stdout)["tenants"]
    return sum(tenant["stored"]["pages"] for tenant in tenants if tenant["stored"])


def test_a_session_is_warm_after_a_restart_of_the_whole_mesh_and_on_another_engine(pair: Mesh) -> None:
    first = say(pair, "s", HISTORY + "Who speaks of the tides?")
    assert explain(pair, first["request_id"])["lookup_miss"] == "NEVER_STORED"
    wait_until(lambda: stored_pages(pair) >= 20, 20, "the pages of the first turn")

    pair.down()
    pair.up()
    second = say(pair, "s", "Where is the harbour?")
    warm = explain(pair, second["request_id"])
    assert warm["stored_tokens"] >= 320
    assert warm["store_tokens"] + warm["host_tokens"] >= 320, warm
    assert warm["computed_tokens"] < 100
    assert "tokens stored" in second["stages"]["cache"]["detail"]

    engines = json.loads(pair.command("cache", "stats", "--json").stdout)["engines"]
    assert {engine["instance"] for engine in engines} == {"engine-1", "engine-2"}
    assert max(engine["host_bytes"] for engine in engines) > 0
    pages = stored_pages(pair)
    third = say(pair, "s", "And the river?")
    served = second["stages"]["attend"]["instance"]
    assert third["stages"]["attend"]["instance"] == served
    assert third["stages"]["cache"]["detail"].endswith(f"{served} served the session last")
    wait_until(lambda: stored_pages(pair) > pages, 20, "the pages of the third turn")

    os.kill(pair.status()[served]["pid"], signal.SIGKILL)
    fourth = say(pair, "s", "And the pilots?")
    assert fourth["stages"]["attend"]["instance"] != served
    moved = explain(pair, fourth["request_id"])
    assert moved["store_tokens"] + moved["host_tokens"] > warm["stored_tokens"], moved
    wait_until(pair.is_ready, 60, "the killed engine")


def test_another_tenants_same_prompt_is_computed(pair: Mesh) -> None:
    key = pair.command("tenant", "create", "other").stdout.strip()
    mine = say(pair, "same", HISTORY + "What do pilots do?")
    wait_until(lambda: stored_pages(pair) >= 20, 20, "my pages")
    theirs = say(pair, "same", HISTORY + "What do pilots do?", api_key=key)
    assert theirs["text"] == mine["text"]
    found = explain(pair, theirs["request_id"])
    assert found["tenant_id"] == "other"
    assert (found["stored_tokens"], found["store_tokens"], found["host_tokens"], found["pool_tokens"]) == (0, 0, 0, 0)


def test_prompts_that_begin_alike_go_to_the_engine_that_has_their_beginning(pair: Mesh) -> None:
    text = "The customs house of Antwerp keeps its ledgers in the order in which ships came. " * 20
    questions = ("Who keeps them?", "Which city?", "What comes?", "In which order?", "Are there ships?", "Why?")
    answers = [say(pair, "", text + question) for question in questions]
    assert len({answer["stages"]["attend"]["instance"] for answer in answers}) == 1
    assert explain(pair, answers[-1]["request_id"])["pool_tokens"] >= 256


def test_of_a_forgotten_session_nothing_is_left_to_reuse(pair: Mesh) -> None:
    text = "The lighthouse of Alexandria stood for a thousand years and more. " * 20
    before = stored_pages(pair)
    say(pair, "forgotten", text)
    wait_until(lambda: stored_pages(pair) >= before + 15, 20, "the pages of the session")
    say(pair, "forgotten", "And then?")
    pair.command("session", "forget", "--session", "forgotten")
    again = explain(pair, say(pair, "new", text)["request_id"])
    reused = [again[tier] for tier in ("pool_tokens", "host_tokens", "store_tokens", "stored_tokens")]
    assert max(reused) <= 16, again  # at most the first page, the beginning that all prompts have in common
