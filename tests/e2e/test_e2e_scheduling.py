"""Hints, accounting, limits and progress, through the whole mesh."""

from __future__ import annotations

import json
import uuid
from typing import Any

import httpx
from mesh_support import Mesh, wait_until

MODEL = "smollm2-135m-instruct"


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": 4,
        "temperature": 0,
        **fields,
    }


def url(mesh: Mesh) -> str:
    return f"http://127.0.0.1:{mesh.http_port}"


def metric(mesh: Mesh, name: str) -> float:
    page = httpx.get(f"{url(mesh)}/metrics", timeout=10).text
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))


def post(mesh: Mesh, path: str, body: dict[str, Any]) -> httpx.Response:
    headers = {"authorization": "Bearer dev"}
    return httpx.post(f"{url(mesh)}{path}", json=body, headers=headers, timeout=60)


def test_a_hinted_prompt_is_in_the_pool_when_its_request_comes(mesh: Mesh) -> None:
    typed = f"Note {uuid.uuid4()}. " + "The lighthouse keeper counts the ships that pass the cape at night. " * 12
    cold = post(mesh, "/v1/chat/completions", chat(f"Note {uuid.uuid4()}. {typed[44:]}")).json()
    computed = 'stagemesh_hints_total{fate="computed"}'
    before = metric(mesh, computed)
    answer = post(mesh, "/v1/hints", chat(typed))
    assert (answer.status_code, answer.json()) == (202, {"object": "hint", "accepted": True})
    wait_until(lambda: metric(mesh, computed) > before, 30, "hint")
    warm = post(mesh, "/v1/chat/completions", chat(f"{typed} How many?")).json()
    cached = [reply["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in (cold, warm)]
    assert cached[1] > cached[0] + 100, "the hint's pages were reused"


def test_a_hint_is_checked_like_its_request(mesh: Mesh) -> None:
    assert (
        post(mesh, "/v1/hints", {"model": "nobody", "messages": [{"role": "user", "content": "x"}]}).status_code == 404
    )
    assert httpx.post(f"{url(mesh)}/v1/hints", json=chat("x"), timeout=10).status_code == 401


def test_what_a_tenant_used_is_told_by_mode(mesh: Mesh) -> None:
    tenant = f"t{uuid.uuid4().hex[:8]}"
    key = mesh.command("tenant", "create", tenant).stdout.strip()
    reply = httpx.post(
        f"{url(mesh)}/v1/chat/completions",
        json=chat("Say hello."),
        headers={"authorization": f"Bearer {key}"},
        timeout=60,
    ).json()

    def told() -> list[dict[str, Any]]:
        return json.loads(mesh.command("usage", "--tenant", tenant, "--json").stdout)  # type: ignore[no-any-return]

    wait_until(lambda: bool(told()), 20, "usage")
    (line,) = told()
    assert (line["tenant_id"], line["mode"], line["requests"]) == (tenant, "standard", 1)
    assert line["completion_tokens"] == reply["usage"]["completion_tokens"]
    assert line["cost_units"] > 0
    assert "is released" in mesh.command("tenant", "release", tenant).stdout
