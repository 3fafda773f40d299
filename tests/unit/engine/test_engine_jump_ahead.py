"""Forced tokens come without a pass of the model for each, and nobody can tell from the answer."""

from __future__ import annotations

import json
from collections.abc import Sequence as Seq

import pytest
from engine_models_support import Model
from engine_requests import Request, Steps, requests, run_mix, same, sequence_of
from engine_support import EOS, FakeRunner, Results, copying_logits, make_core, make_sequence, run_to_end
from hypothesis import given, settings
from hypothesis import strategies as st

from services.engine.config import ConstraintConfig
from services.engine.constraint_compiler import ConstraintCompiler
from services.engine.core import CoreLimits, EngineCore
from services.engine.request import ComputedBy, RequestLimits, build_sequence, check_submit
from services.engine.sequence import MAX_DECODE_ROWS
from services.engine.speculation import Speculation
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.store import ModelFiles
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer


@settings(max_examples=35, deadline=None)
@given(requests, st.integers(8, 16), st.integers(1, 4), st.sampled_from([16, 33]), st.sampled_from([0, 7]))
def test_the_answer_is_that_of_asking_the_model_for_each_token(
    mix: list[Request], num_pages: int, max_running: int, chunk: int, most_drafts: int
) -> None:
    runner = FakeRunner(num_pages, copying_logits)
    drafting = Speculation(most_drafts) if most_drafts else None
    core = make_core(runner, num_pages, max_running=max_running, chunk=chunk, drafting=drafting)
    results = run_mix(core, mix, jumps_ahead=True)
    for number, request in enumerate(mix):
        plain_core = make_core(FakeRunner(num_pages, copying_logits), num_pages)
        plain_core.add(sequence_of(str(number), request))
        assert same(results, run_to_end(plain_core), str(number))


class Forced(Steps):
    """The first token is free, the others are not."""

    def _allowed(self, taken: Seq[int]) -> list[int]:
        if not taken:
            return [20, 21]
        return [EOS] if len(taken) >= self._length else [20 + len(taken) % 60]


@pytest.mark.parametrize("length", [20, MAX_DECODE_ROWS + 20])
def test_a_run_of_forced_tokens_costs_one_step_however_long_it_is(length: int) -> None:
    core = make_core(FakeRunner(16), 16, chunk=256)
    sequence = make_sequence("a", range(1, 11), max_tokens=200, constraint=Forced(0, length))
    sequence.jumps_ahead = True
    core.add(sequence)
    results = run_to_end(core)
    assert len(results.tokens["a"]) == length + 1
    finished = results.finished["a"]
    assert (finished.forced_tokens, finished.forwards) == (length - 1, 2)


SCHEMA = {
    "type": "object",
    "properties": {
        "customer_name": {"type": "string", "maxLength": 20},
        "number_of_items": {"type": "integer", "minimum": 1, "maximum": 99},
        "delivery_address": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "postal_code": {"type": "string"}},
            "required": ["city", "postal_code"],
        },
        "status": {"enum": ["shipped", "pending", "returned"]},
    },
    "required": ["customer_name", "number_of_items", "delivery_address", "status"],
}
CONSTRAINTS = {
    "schema": common_pb2.OutputConstraint(json_schema=json.dumps(SCHEMA)),
    "regex": common_pb2.OutputConstraint(regex=r"The answer is [a-z]{3,9}, and the number of it is [0-9]{2}\."),
    "grammar": common_pb2.OutputConstraint(
        grammar='start: "SELECT " NAME " FROM customers WHERE id = " INT ";"\nNAME: /[a-z]{2,8}/\nINT: /[0-9]{1,3}/'
    ),
    "choice": common_pb2.OutputConstraint(
        choice=common_pb2.ChoiceList(values=["definitely acceptable", "definitely refused", "unknown to us"])
    ),
}


class World:
    """The default model, in process."""

    def __init__(self, files: ModelFiles) -> None:
        self.tokenizer: TokenizerFile = load_tokenizer(files)
        self.model = Model(files, num_pages=64, backend="native")
        self.vocabulary = Vocabulary(
            self.tokenizer.all_token_bytes, self.tokenizer.special_ids, frozenset(self.tokenizer.eos_token_ids)
        )
        self.compiler = ConstraintCompiler(self.tokenizer, self.tokenizer.vocab_size, ConstraintConfig())

    def core(self) -> EngineCore:
        limits = CoreLimits(num_pages=64, max_running=4, prefill_chunk_size=64, stage_sample_interval=4)
        return EngineCore(self.model.runner, self.vocabulary, limits)

    def answer(self, submit: engine_pb2.Submit, *, jumps_ahead: bool) -> Results:
        limits = RequestLimits(
            vocab_size=self.tokenizer.vocab_size, max_total_tokens=900, max_output_tokens=None, jumps_ahead=jumps_ahead
        )
        params = check_submit(submit, limits)
        constraint = self.compiler.compile(submit.constraint, submit.sampling.max_tokens)
        sequence, ending = build_sequence(submit, params, constraint, self.vocabulary, limits, ComputedBy())
        assert ending is None
        core = self.core()
        core.add(sequence)
        return run_to_end(core)

    def submit(self, constraint: common_pb2.OutputConstraint, delivered: Seq[int] = ()) -> engine_pb2.Submit:
        text = "<|im_start|>user\nInvent an order.<|im_end|>\n<|im_start|>assistant\n"
        return engine_pb2.Submit(
            sequence_id="a",
            token_ids=self.tokenizer.build().encode(text).ids,
            constraint=constraint,
            delivered_token_ids=delivered,
            sampling=common_pb2.SamplingParams(temperature=0, max_tokens=300),
        )


@pytest.fixture(scope="module")
def world(default_model_files: ModelFiles) -> World:
    return World(default_model_files)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_with_the_default_model_answers_are_equal_and_passes_are_fewer(
    world: World, kind: str, temperature: float
) -> None:
    submit = world.submit(CONSTRAINTS[kind])
    submit.sampling.temperature, submit.sampling.seed = temperature, 11
    jumping, plain = (world.answer(submit, jumps_ahead=on) for on in (True, False))
    assert jumping.tokens == plain.tokens
    assert jumping.ending("a") == plain.ending("a")
    account = jumping.finished["a"]
    assert account.forced_tokens > 0
    assert account.forwards + account.forced_tokens == account.completion_tokens == len(plain.tokens["a"])
    assert plain.finished["a"].forwards == plain.finished["a"].completion_tokens


@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_an_answer_that_is_continued_elsewhere_goes_on_as_it_would_have(world: World, kind: str) -> None:
    whole = world.answer(world.submit(CONSTRAINTS[kind]), jumps_ahead=True).tokens["a"]
    for cut in range(1, len(whole) - 2, 11):
        again = world.submit(CONSTRAINTS[kind], whole[:cut])
        for jumps_ahead in (True, False):
            assert world.answer(again, jumps_ahead=jumps_ahead).tokens["a"] == whole[cut:]


def test_log_probabilities_are_those_of_every_token(world: World) -> None:
    submit = world.submit(CONSTRAINTS["schema"])
    submit.sampling.logprobs = 1
    results = world.answer(submit, jumps_ahead=True)
    assert [entry.token for entry in results.logprobs["a"]] == results.tokens["a"]
    assert results.finished["a"].forced_tokens == 0


def test_an_answer_without_any_choice_needs_no_model(world: World) -> None:
    submit = world.submit(common_pb2.OutputConstraint(choice=common_pb2.ChoiceList(values=["the only answer"])))
    limits = RequestLimits(
        vocab_size=world.tokenizer.vocab_size, max_total_tokens=900, max_output_tokens=None, jumps_ahead=True
    )
    constraint = world.compiler.compile(submit.constraint, 90)
    sequence, ending = build_sequence(
        submit, check_submit(submit, limits), constraint, world.vocabulary, limits, ComputedBy()
    )
    assert ending is not None
    assert ending.reason == common_pb2.FINISH_REASON_STOP
    assert world.tokenizer.build().decode(sequence.tokens[sequence.num_prompt :]) == "the only answer"
