"""Answers of the default model under made-up schemas: are they valid, how quick are they, what did the grammar force?

    python benchmarks/constrained_generation.py [--count 200] [--seed 2] [--threads 1] [--quick] [--busy] [--json]

In process, one answer at a time, greedy. `valid_of_stopped`: of the answers that end by themselves, those that the full
validator takes. `whole`: of schemas whose grammar holds all that they say; what others ask beyond that is held by the
validator and the corrector. Characters a second are of decoding: from the first pass that yields a token to the end, of
requests under a schema, of the same without forced tokens, of free text of as many tokens at most after a short
question, and of free text after a question that follows the schema, so that it attends to as much.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.record_schemas import records
from benchmarks.schema_cases import SchemaCase
from services.engine.config import EngineConfig
from services.engine.constraint_compiler import ConstraintCompiler
from services.engine.core import CoreLimits, EngineCore
from services.engine.engine import LoadedModel, load_model
from services.engine.grammar_builder import GrammarBuilder, GrammarLimits
from services.engine.grammar_source import STRICT_OPTIONS, json_grammar, read_schema
from services.engine.make_drafting import make_drafting
from services.engine.request import ComputedBy, RequestLimits, build_sequence, check_submit
from services.engine.updates import Finished
from services.engine.vocabulary import Vocabulary
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.models.pull import pull
from stagemesh.runtime.config import read_source
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.json_text import BadJson, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.schema import compile_schema

QUICK_COUNT = 6
MAX_TOKENS = 400
PROMPT = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"
STRUCTURED = "Invent data for this JSON Schema.\n{}"
FREE = "Tell me in plain sentences, without lists, something about {}."
FREE_AFTER = "{}\n\nThat was a JSON Schema, which you may forget. " + FREE
KINDS = ("structured", "without_forced", "free", "free_after_schema")
TOPICS = ("the sea", "a small town", "bread", "bridges", "winter", "old trains", "a good teacher", "rivers", "gardens")


@dataclass(frozen=True)
class Answer:
    text: str
    seconds: float
    """Of decoding."""
    account: Finished

    @property
    def has_stopped(self) -> bool:
        return self.account.ending.reason == common_pb2.FINISH_REASON_STOP


class Answerer:
    """The model in process."""

    def __init__(self, model: LoadedModel, config: EngineConfig) -> None:
        self._model, self._config = model, config
        self._tokenizer = model.tokenizer.build()
        self._vocabulary = Vocabulary(
            model.tokenizer.all_token_bytes, model.tokenizer.special_ids, frozenset(model.config.eos_token_ids)
        )
        self._compiler = ConstraintCompiler(model.tokenizer, self.vocab_size, config.constraint)
        self._core = self._make_core()  # for all answers, as in the service: it learns what steps cost

    @property
    def vocab_size(self) -> int:
        return max(self._model.config.vocab_size, self._model.tokenizer.vocab_size)

    def answer(self, asked: str, schema: str = "", *, jumps_ahead: bool = True, max_tokens: int) -> Answer:
        """To a question, held to the schema if there is one."""
        submit = engine_pb2.Submit(
            sequence_id="a",
            token_ids=self._tokenizer.encode(PROMPT.format(asked)).ids,
            sampling=common_pb2.SamplingParams(temperature=0, max_tokens=max_tokens),
        )
        limits = RequestLimits(
            vocab_size=self._model.config.vocab_size,
            max_total_tokens=self._model.context_length,
            max_output_tokens=None,
            jumps_ahead=jumps_ahead,
        )
        constraint = None
        if schema:
            submit.constraint.json_schema = schema
            constraint = self._compiler.compile(submit.constraint, max_tokens)
        params = check_submit(submit, limits)
        sequence, ending = build_sequence(submit, params, constraint, self._vocabulary, limits, ComputedBy())
        if ending is not None:
            account = Finished(ending, sequence.num_prompt, sequence.num_output, 0, ())
            return Answer(self._text(sequence.tokens[sequence.num_prompt :]), 0.0, account)
        core = self._core
        core.add(sequence)
        started_s: float | None = None
        while True:
            output = core.step()
            if started_s is None and any(update.tokens for update in output.updates):
                started_s = time.perf_counter()
            if ended := [update.finished for update in output.updates if update.finished is not None]:
                assert started_s is not None
                text = self._text(sequence.tokens[sequence.num_prompt :])
                return Answer(text, time.perf_counter() - started_s, ended[0])

    def _make_core(self) -> EngineCore:
        limits = CoreLimits(
            num_pages=self._model.num_pages, max_running=1, prefill_chunk_size=512, stage_sample_interval=999
        )
        runner = self._model.runner
        return EngineCore(
            runner, self._vocabulary, limits, make_drafting(self._config.speculation, runner, self._vocabulary)
        )

    def _text(self, tokens: list[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True))


class Totals:
    """What the answers come to."""

    def __init__(self) -> None:
        self.answers = self.stopped = self.stopped_valid = self.whole_stopped = self.whole_stopped_valid = 0
        self.cut = self.cut_valid = 0
        self.tokens = self.forced = self.forwards = 0
        self.chars: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.passes: dict[str, int] = {}
        self.differing = 0
        self.invalid: list[str] = []

    def add(self, case: SchemaCase, answer: Answer, *, is_whole: bool) -> None:
        """An answer under its schema."""
        is_valid = _is_valid(case.schema, answer.text)
        self.answers += 1
        if answer.has_stopped:
            self.stopped += 1
            self.stopped_valid += is_valid
            self.whole_stopped += is_whole
            self.whole_stopped_valid += is_whole and is_valid
            if not is_valid:
                self.invalid.append(f"{case.name}: {case.schema[:300]} -> {answer.text[:200]}")
        else:
            self.cut += 1
            self.cut_valid += is_valid
            if not is_valid:
                self.invalid.append(f"{case.name} (cut): {case.schema[:300]} -> …{answer.text[-200:]}")
        self.tokens += answer.account.completion_tokens
        self.forced += answer.account.forced_tokens
        self.forwards += answer.account.forwards

    def time(self, kind: str, answer: Answer) -> None:
        self.chars[kind] = self.chars.get(kind, 0) + len(answer.text)
        self.seconds[kind] = self.seconds.get(kind, 0.0) + answer.seconds
        self.passes[kind] = self.passes.get(kind, 0) + answer.account.forwards

    def chars_per_s(self, kind: str) -> float:
        return round(self.chars[kind] / max(1e-9, self.seconds[kind]), 1)

    def chars_per_forward(self, kind: str) -> float:
        return round(self.chars[kind] / max(1, self.passes[kind]), 2)

    def ms_per_forward(self, kind: str) -> float:
        return round(1e3 * self.seconds[kind] / max(1, self.passes[kind]), 2)


def _is_valid(schema: str, text: str) -> bool:
    try:
        value = parse(text, max_depth=Limits().max_depth)
    except BadJson:
        return False
    return not compile_schema(schema, Limits()).issues(value, brief=True)


def run(cases: Iterable[SchemaCase], answerer: Answerer, builder: GrammarBuilder) -> Totals:
    """All cases, each four times: with forced tokens, without, free, and free after the schema."""
    totals = Totals()
    for number, case in enumerate(cases):
        shown, topic = case.schema[:1500], TOPICS[number % len(TOPICS)]
        asked = STRUCTURED.format(shown)
        is_whole = not builder.matcher(json_grammar(read_schema(case.schema), STRICT_OPTIONS)).is_error()
        held = answerer.answer(asked, case.schema, max_tokens=MAX_TOKENS)
        plain = answerer.answer(asked, case.schema, jumps_ahead=False, max_tokens=MAX_TOKENS)
        max_free = max(2, held.account.completion_tokens)
        free = answerer.answer(FREE.format(topic), max_tokens=max_free)
        free_after = answerer.answer(FREE_AFTER.format(shown, topic), max_tokens=max_free)
        totals.differing += held.text != plain.text
        totals.add(case, held, is_whole=is_whole)
        for kind, answer in zip(KINDS, (held, plain, free, free_after), strict=True):
            totals.time(kind, answer)
    return totals


def summary(totals: Totals) -> dict[str, Any]:
    structured, _, free, free_after = (totals.chars_per_s(kind) for kind in KINDS)
    return {
        "schemas": totals.answers,
        "stopped": totals.stopped,
        "valid_of_stopped": totals.stopped_valid,
        "whole_stopped": totals.whole_stopped,
        "whole_valid_of_stopped": totals.whole_stopped_valid,
        "cut": totals.cut,
        "valid_of_cut": totals.cut_valid,
        "differ_without_forced": totals.differing,
        **{f"{kind}_chars_per_s": totals.chars_per_s(kind) for kind in KINDS},
        **{f"{kind}_chars_per_forward": totals.chars_per_forward(kind) for kind in KINDS},
        **{f"{kind}_ms_per_forward": totals.ms_per_forward(kind) for kind in KINDS},
        "structured_of_free": round(structured / free, 2),
        "structured_of_free_after_schema": round(structured / free_after, 2),
        "forced_share": round(totals.forced / max(1, totals.tokens), 3),
        "tokens_per_forward": round(totals.tokens / max(1, totals.forwards), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_COUNT} schemas")
    parser.add_argument("--list", action="store_true", help="show answers that stopped and are not valid")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    config = EngineConfig(threads=args.threads)
    model = load_model(pull(read_source(environ={}).shared(MeshConfig)), config)
    answerer = Answerer(model, config)
    limits = GrammarLimits(
        max_lexer_states=config.constraint.max_lexer_states, max_grammar_symbols=config.constraint.max_grammar_symbols
    )
    tokenizer = model.tokenizer
    builder = GrammarBuilder(tokenizer.json, answerer.vocab_size, tokenizer.eos_token_ids, limits)
    with no_lock() if args.busy else benchmark_lock():
        totals = run(records(args.seed, QUICK_COUNT if args.quick else args.count), answerer, builder)
    found = {"backend": model.backend, "threads": args.threads, **summary(totals)}
    if args.list:
        print(*totals.invalid, sep="\n")
    print(json.dumps({"machine": describe_machine(), **found} if args.json else found))


if __name__ == "__main__":
    main()
