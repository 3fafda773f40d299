import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.corrector.v1 import corrector_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.api.validator.v1 import validator_pb2
from stagemesh.cli.main import main
from stagemesh.runtime.errors import DeadlineExceeded, Exhausted, Unauthenticated
from tests.contract.fake_gateway import FakeGateway, deferred, delta, final, serving

TWELVE = [
    *("admit", "analyze", "tokenize", "cache"),
    *("embed", "attend", "mlp", "norm", "sample"),
    *("detokenize", "validate", "correct"),
]


@pytest.fixture
def gateway() -> Iterator[FakeGateway]:
    with serving(FakeGateway()) as running:
        yield running


def run(gateway: FakeGateway, *arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments, "--address", gateway.address], input=stdin, env={"NO_COLOR": "1"})


def as_object(result: Result) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(result.stdout)
    return value


def test_json_has_exactly_the_documented_keys_and_all_twelve_stages_in_order(gateway: FakeGateway) -> None:
    gateway.script = [delta("Par"), delta("is.", 2), final()]
    result = run(gateway, "chat", "What is the capital of France?", "--json")
    assert result.exit_code == 0
    answer = as_object(result)
    assert list(answer) == [
        "request_id",
        "outcome",
        "text",
        "finish_reason",
        "usage",
        "stages",
        "validation",
        "ttft_ms",
        "total_ms",
        "model",
    ]
    assert (answer["outcome"], answer["text"], answer["finish_reason"]) == ("complete", "Paris.", "stop")
    assert answer["usage"] == {"prompt_tokens": 30, "completion_tokens": 4, "cached_tokens": 16}
    assert [stage["name"] for stage in answer["stages"]] == TWELVE
    assert answer["stages"][4] == {
        "name": "embed",
        "status": "ok",
        "duration_ms": 1.5,
        "attempts": 1,
        "fallback": None,
        "detail": None,
    }
    assert answer["validation"] == {"valid": True, "certain": True, "errors": [], "corrections": []}
    assert (answer["ttft_ms"], answer["total_ms"], answer["model"]) == (250.0, 400.5, "smollm2-135m-instruct")


def test_chat_streams_the_answer_to_stdout_and_nothing_else(gateway: FakeGateway) -> None:
    gateway.script = [delta("Par"), delta("is.", 2), final()]
    result = run(gateway, "chat", "Capital of France?", "--stages")
    assert result.stdout == "Paris.\n"
    assert "detokenize" in result.stderr


def test_what_has_streamed_stays_when_there_is_no_answer_in_the_end(gateway: FakeGateway) -> None:
    gateway.script = [delta("Par"), DeadlineExceeded("DEADLINE_EXCEEDED", "too late")]
    result = run(gateway, "chat", "Capital of France?")
    assert (result.exit_code, result.stdout) == (7, "Par\n")
    assert "replaced" not in result.stderr


def test_the_final_text_wins_over_what_was_streamed(gateway: FakeGateway) -> None:
    gateway.script = [delta("Lyon."), final("Paris.")]
    result = run(gateway, "chat", "Capital of France?")
    assert result.stdout.splitlines()[-1] == "Paris."
    assert "replaced" in result.stderr


def test_options_reach_the_gateway(gateway: FakeGateway, tmp_path: Path) -> None:
    schema, anchors = tmp_path / "schema.json", tmp_path / "anchors.json"
    schema.write_text('{"type": "object"}')
    anchors.write_text('{"/city": ["Paris", "Lyon"]}')
    gateway.script = [final("{}")]
    result = run(
        gateway,
        *("generate", "--prompt", "Which city?", "--system", "Be brief.", "--schema", str(schema)),
        *("--anchors", str(anchors), "--route", "doc-analyze", "--max-tokens", "7", "--temperature", "0.5"),
        *("--seed", "3", "--stop", "END", "--defer", "--session", "s", "--user", "u", "--tenant-key", "sk-1"),
        *("--traceparent", f"00-{'1' * 32}-{'2' * 16}-01"),
    )
    assert result.exit_code == 0, result.stderr
    (request,) = gateway.requests
    assert [(message.role, message.content) for message in request.chat.messages] == [
        ("system", "Be brief."),
        ("user", "Which city?"),
    ]
    assert request.constraint.json_schema == '{"type": "object"}'
    assert [(anchor.pointer, list(anchor.keys)) for anchor in request.anchors] == [("/city", ["Paris", "Lyon"])]
    assert (request.route, request.allow_deferral, request.session_id, request.user_id) == (
        "doc-analyze",
        True,
        "s",
        "u",
    )
    assert (request.sampling.max_tokens, request.sampling.temperature, request.sampling.seed) == (7, 0.5, 3)
    assert list(request.sampling.stop) == ["END"]
    assert not request.sampling.HasField("top_p")
    assert gateway.metadata["authorization"] == "Bearer sk-1"
    assert gateway.metadata["traceparent"] == f"00-{'1' * 32}-{'2' * 16}-01"


def test_a_raw_prompt_goes_without_the_chat_template(gateway: FakeGateway) -> None:
    gateway.script = [final()]
    run(gateway, "generate", "--prompt", "-", "--raw", stdin="Once upon")
    assert gateway.requests[0].prompt == "Once upon"


def validation(valid: bool) -> gateway_pb2.Validation:
    issue = validator_pb2.Issue(pointer="/age", rule="type", message="must be an integer", severity=2)
    change = corrector_pb2.Change(pointer="/age", to="3", reason="text to number", confidence=1.0, step="syntax")
    return gateway_pb2.Validation(valid=valid, issues=[] if valid else [issue], changes=[change])


def test_an_answer_that_does_not_validate_ends_with_1_and_says_where(gateway: FakeGateway) -> None:
    gateway.script = [final("{}", outcome=common_pb2.OUTCOME_DEGRADED, validation=validation(valid=False))]
    result = run(gateway, "generate", "--prompt", "x", "--json")
    assert result.exit_code == 1
    answer = as_object(result)
    assert answer["validation"]["valid"] is False
    assert answer["validation"]["errors"][0]["pointer"] == "/age"
    assert answer["validation"]["corrections"][0]["to"] == "3"


def test_an_unvalidated_answer_is_not_taken_for_a_valid_one(gateway: FakeGateway) -> None:
    unknown = gateway_pb2.Validation(valid=True, unvalidated=True)
    gateway.script = [final("{}", outcome=common_pb2.OUTCOME_DEGRADED, validation=unknown)]
    result = run(gateway, "generate", "--prompt", "x", "--json")
    assert result.exit_code == 1
    assert as_object(result)["validation"]["errors"][0]["rule"] == "unvalidated"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        (common_pb2.OUTCOME_DEGRADED, 0),
        (common_pb2.OUTCOME_REJECTED, 4),
        (common_pb2.OUTCOME_CANCELLED, 6),
        (common_pb2.OUTCOME_EXPIRED, 7),
        (common_pb2.OUTCOME_DEAD_LETTERED, 8),
    ],
)
def test_each_outcome_has_its_exit_code(gateway: FakeGateway, outcome: common_pb2.Outcome.ValueType, code: int) -> None:
    gateway.script = [final(outcome=outcome, error=common_pb2.ErrorDetail(code=14, reason="WHY", message="because"))]
    result = run(gateway, "chat", "x", "--json")
    assert result.exit_code == code
    assert as_object(result)["outcome"] == common_pb2.Outcome.Name(outcome).removeprefix("OUTCOME_").lower()
    assert as_object(result)["error"]["reason"] == "WHY"


@pytest.mark.parametrize(
    ("error", "code", "outcome"),
    [
        (Unauthenticated("INVALID_API_KEY", "no such key"), 4, "rejected"),
        (Exhausted("QUEUE_FULL", "too busy", retry_after_ms=1500), 4, "rejected"),
        (DeadlineExceeded("DEADLINE_EXCEEDED", "too late"), 7, "expired"),
    ],
)
def test_a_refusal_is_one_sentence_or_one_object(
    gateway: FakeGateway, error: Unauthenticated | Exhausted | DeadlineExceeded, code: int, outcome: str
) -> None:
    gateway.script = [error]
    said = run(gateway, "chat", "x")
    assert said.exit_code == code
    assert error.message in said.stderr
    assert said.stdout == ""
    answer = as_object(run(gateway, "chat", "x", "--json"))
    assert answer["outcome"] == outcome
    assert answer["error"]["reason"] == error.reason
    assert answer["validation"]["valid"] is False
    assert [stage["name"] for stage in answer["stages"]] == TWELVE


def test_a_deadline_that_passes_at_this_end_names_the_option(gateway: FakeGateway) -> None:
    gateway.hang_after_script = True
    result = run(gateway, "chat", "x", "--timeout", "0.2")
    assert (result.exit_code, result.stderr) == (7, "expired: no end within 0.2 s; --timeout gives more time\n")


def test_a_degraded_answer_names_the_stages_and_what_they_fell_back_to(gateway: FakeGateway) -> None:
    ended = final(outcome=common_pb2.OUTCOME_DEGRADED)
    ended.final.stages.add(stage=common_pb2.STAGE_CACHE, status=common_pb2.STAGE_STATUS_DEGRADED, fallback="cold")
    gateway.script = [ended]
    assert run(gateway, "chat", "x").stderr == "degraded: cache (cold)\n"


def test_a_fault_of_the_whole_answer_is_not_told_as_a_fault_of_a_member(gateway: FakeGateway) -> None:
    issue = validator_pb2.Issue(pointer="", rule="json.syntax", message="the text is not valid JSON", severity=2)
    gateway.script = [final("no", validation=gateway_pb2.Validation(valid=False, issues=[issue]))]
    assert "the answer: the text is not valid JSON" in run(gateway, "generate", "--prompt", "x").stderr


def test_a_deferred_request_ends_with_5_and_its_id(gateway: FakeGateway) -> None:
    gateway.script = [deferred("the-id")]
    gateway.hang_after_script = True
    result = run(gateway, "generate", "--prompt", "x", "--defer", "--request-id", "the-id")
    assert result.exit_code == 5
    assert result.stderr == "Deferred: `stagemesh watch the-id` follows it.\n"
    assert as_object(run(gateway, "generate", "--prompt", "x", "--defer", "--json"))["outcome"] == "deferred"


def test_wait_follows_a_deferred_request_to_its_end(gateway: FakeGateway) -> None:
    gateway.script = [deferred("the-id"), delta("Paris."), final()]
    result = run(gateway, "generate", "--prompt", "x", "--defer", "--wait")
    assert (result.exit_code, result.stdout) == (0, "Paris.\n")


def test_watch_follows_from_an_event_and_cancel_tells_the_outcome(gateway: FakeGateway) -> None:
    gateway.script = [final()]
    watched = run(gateway, "watch", "the-id", "--after", "3")
    assert (watched.exit_code, watched.stdout) == (0, "Paris.\n")
    assert (gateway.watched[0].request_id, gateway.watched[0].after_seq) == ("the-id", 3)
    assert run(gateway, "cancel", "the-id").exit_code == 0
    gateway.cancel_outcome = common_pb2.OUTCOME_COMPLETE
    late = run(gateway, "cancel", "the-id")
    assert (late.exit_code, late.stdout) == (1, "complete\n")


def test_a_stream_without_an_end_is_an_error_that_names_the_way_on(gateway: FakeGateway) -> None:
    gateway.script = [delta("Par")]
    unnamed = run(gateway, "chat", "x")
    assert (unnamed.exit_code, "send the request again" in unnamed.stderr) == (1, True)
    named = run(gateway, "generate", "--prompt", "x", "--request-id", "the-id")
    assert (named.exit_code, "stagemesh watch the-id" in named.stderr) == (1, True)


def test_a_request_has_an_id_of_its_callers_only_where_one_is_given(gateway: FakeGateway) -> None:
    gateway.script = [final()]
    run(gateway, "chat", "x")
    run(gateway, "generate", "--prompt", "x", "--request-id", "the-id")
    assert [request.request_id for request in gateway.requests] == ["", "the-id"]


def test_a_truncated_answer_says_so(gateway: FakeGateway) -> None:
    gateway.script = [final(finish_reason=common_pb2.FINISH_REASON_LENGTH)]
    assert "--max-tokens" in run(gateway, "chat", "x").stderr


def test_a_conversation_keeps_its_session_and_sends_new_messages_only(gateway: FakeGateway) -> None:
    gateway.script = [delta("Paris."), final()]
    result = run(gateway, "chat", "--session", "trip", stdin="Capital of France?\n\nAnd of Italy?\n")
    assert result.exit_code == 0
    assert result.stdout == "Paris.\nParis.\n"
    assert [request.session_id for request in gateway.requests] == ["trip", "trip"]
    assert [request.chat.messages[0].content for request in gateway.requests] == ["Capital of France?", "And of Italy?"]


def test_a_failed_turn_does_not_end_the_conversation(gateway: FakeGateway) -> None:
    gateway.script = [Exhausted("QUEUE_FULL", "too busy")]
    result = run(gateway, "chat", stdin="one\ntwo\n")
    assert result.exit_code == 0
    assert len(gateway.requests) == 2


def test_ctrl_c_cancels_the_answer_at_the_gateway(gateway: FakeGateway) -> None:
    gateway.script, gateway.hang_after_script = [delta("Once")], True
    process = subprocess.Popen(
        [sys.executable, "-m", "stagemesh.cli.main", "chat", "x", "--address", gateway.address],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.read(4) == b"Once"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert gateway.cancelled.wait(10)


def test_without_a_gateway_the_sentence_names_the_command_that_starts_one() -> None:
    result = CliRunner().invoke(main, ["chat", "hello", "--address", "127.0.0.1:9"])
    assert result.exit_code == 3
    assert "stagemesh up" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("address", ["http://127.0.0.1:50051", "127.0.0.1", "127.0.0.1:http"])
def test_what_is_no_address_is_a_usage_error(address: str) -> None:
    result = CliRunner().invoke(main, ["chat", "hello", "--address", address])
    assert result.exit_code == 2
    assert f"--address: '{address}' is not an address of the form host:port" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"), [("[1]", "must hold an object"), ('{"/a": [1]}', "'/a' is wrong"), ("{", "is not JSON")]
)
def test_a_wrong_anchors_file_is_a_usage_error(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "anchors.json"
    path.write_text(content)
    result = CliRunner().invoke(main, ["generate", "--prompt", "x", "--anchors", str(path), "--address", "127.0.0.1:9"])
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")
