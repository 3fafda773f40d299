"""The `openai` client, unchanged, against a whole mesh; health and reflection from a process of its own."""

import subprocess
import sys

import httpx
import openai
import pytest
from mesh_support import Mesh, wait_until

MODEL = "smollm2-135m-instruct"
FRANCE = [{"role": "user", "content": "What is the capital of France?"}]


def test_a_chat_answers_sensibly(mesh: Mesh) -> None:
    answer = mesh.openai().chat.completions.create(model=MODEL, messages=FRANCE)
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_a_streamed_chat_says_the_same_and_ends_with_usage(mesh: Mesh) -> None:
    client = mesh.openai()
    whole = client.chat.completions.create(model=MODEL, messages=FRANCE).choices[0].message.content
    stream = client.chat.completions.create(
        model=MODEL, messages=FRANCE, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_completions_models_and_logprobs(mesh: Mesh) -> None:
    client = mesh.openai()
    completion = client.completions.create(model=MODEL, prompt="The capital of France is", max_tokens=4, logprobs=2)
    assert "Paris" in completion.choices[0].text
    assert [model.id for model in client.models.list()] == [MODEL]
    chat = client.chat.completions.create(model=MODEL, messages=FRANCE, max_tokens=3, logprobs=True, top_logprobs=2)
    logprobs = chat.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 3
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in logprobs.content)


def test_the_same_seed_gives_the_same_text_and_choices_differ(mesh: Mesh) -> None:
    client = mesh.openai()

    def draw() -> list[str | None]:
        answer = client.chat.completions.create(
            model=MODEL, messages=FRANCE, temperature=1, seed=11, n=3, max_tokens=12
        )
        return [choice.message.content for choice in answer.choices]

    first = draw()
    assert first == draw()
    assert len(set(first)) > 1


def test_errors_are_of_the_kinds_that_the_client_knows(mesh: Mesh) -> None:
    client = mesh.openai()
    with pytest.raises(openai.AuthenticationError):
        mesh.openai("wrong").models.list()
    with pytest.raises(openai.NotFoundError, match="nowhere"):
        client.chat.completions.create(model="nowhere", messages=FRANCE)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        client.chat.completions.create(model=MODEL, messages=FRANCE, temperature=9)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "word " * 20_000}])
    assert caught.value.code == "context_length_exceeded"


def test_a_precision_mode_is_asked_for_by_header(mesh: Mesh) -> None:
    """Modes that the engine holds answer; the others, and unknown ones, are refused with a list of what there is."""
    client = mesh.openai().chat.completions.with_raw_response
    held: list[str] = []
    refused: list[openai.ConflictError] = []
    for mode in ("turbo", "standard", "precise"):
        try:
            client.create(model=MODEL, messages=FRANCE, max_tokens=1, extra_headers={"x-inference-mode": mode})
            held.append(mode)
        except openai.ConflictError as error:
            refused.append(error)
    assert held
    listed = f"there are {', '.join(sorted(held))}"
    assert all((error.code, error.param) == ("mode_unavailable", "x-inference-mode") for error in refused)
    assert all(listed in error.message for error in refused)
    with pytest.raises(openai.BadRequestError, match="x-inference-mode must be one of turbo, standard, precise"):
        client.create(model=MODEL, messages=FRANCE, max_tokens=1, extra_headers={"x-inference-mode": "exact"})


def test_a_request_without_a_session_can_be_explained_afterwards(mesh: Mesh) -> None:
    """Each service has its own Redis user: what is noted of a request must lie under keys that the cache may name."""
    client = mesh.openai().chat.completions.with_raw_response
    request_id = client.create(model=MODEL, messages=FRANCE, max_tokens=1).headers["x-request-id"]
    wait_until(
        lambda: mesh.command("cache", "explain", request_id, "--json", check=False).returncode == 0, 20, "explanation"
    )


def test_alive_ready_and_measured(mesh: Mesh) -> None:
    base = f"http://127.0.0.1:{mesh.http_port}"
    assert httpx.get(f"{base}/healthz").status_code == 200
    assert httpx.get(f"{base}/readyz").status_code == 200
    assert "stagemesh_requests_total" in httpx.get(f"{base}/metrics").text


PROBE = """
import sys, grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
with grpc.insecure_channel(sys.argv[1]) as channel:  # left open, with a stream read half, it can hang at the exit
    check = health_pb2_grpc.HealthStub(channel).Check
    for name in ("", "stagemesh.api.gateway.v1.GatewayService"):
        print(name, check(health_pb2.HealthCheckRequest(service=name), timeout=5).status)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    info = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
    (answer,) = info(iter([asked]), timeout=5)
    print([service.name for service in answer.list_services_response.service])
"""


def test_health_and_reflection_answer_another_process(mesh: Mesh) -> None:
    command = [sys.executable, "-c", PROBE, f"127.0.0.1:{mesh.grpc_port}"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert " 1\nstagemesh.api.gateway.v1.GatewayService 1\n" in shown
    assert "'stagemesh.api.gateway.v1.GatewayService'" in shown
