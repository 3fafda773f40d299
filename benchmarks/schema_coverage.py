"""Which schemas are accepted and enforced, by the grammar alone and with the validator, and what building costs.

    python benchmarks/schema_coverage.py [--schemas FOLDER] [--count 1200] [--seed 1] [--quick] [--busy] [--json]

Without a folder, schemas come from the seeded generator of `schema_generator.py`. A folder holds files in MaskBench's
form (github.com/guidance-ai/jsonschemabench, maskbench/data): a schema, and instances that are valid or not.

Each schema is tried out as an engine does it, in a process with 1 s and bounded memory. `grammar_right`: schemas whose
grammar holds all that they say and decides every instance rightly. `together_right`: accepted schemas of which a valid
instance is taken by the grammar, and an invalid one refused by grammar or validator. A wrong acceptance is an invalid
instance that got through. A wrong refusal is a valid instance that the grammar cannot write; nearly all of these have
their properties in another order than the schema, which is the order of answers.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.machine import describe_machine
from benchmarks.schema_cases import Instance, SchemaCase, read_cases
from benchmarks.schema_generator import generate
from services.engine.config import ConstraintConfig
from services.engine.grammar_builder import GrammarBuilder, GrammarLimits
from services.engine.grammar_source import STRICT_OPTIONS, json_grammar, read_schema
from services.engine.grammar_trials import GrammarTrials
from stagemesh.models.pull import pull
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.config import read_source
from stagemesh.runtime.errors import StagemeshError
from stagemesh.runtime.mesh_config import MeshConfig
from stagemesh.validation.constraint import Constraint, Kind
from stagemesh.validation.json_text import BadJson, parse
from stagemesh.validation.limits import Limits
from stagemesh.validation.refusal import Refusal
from stagemesh.validation.schema import CompiledSchema, compile_schema

QUICK_COUNT = 60


@dataclass
class Tally:
    """What came of the schemas."""

    num_schemas: int = 0
    accepted: int = 0
    whole_grammars: int = 0
    """Accepted ones of which the grammar holds everything."""
    grammar_right: int = 0
    together_right: int = 0
    num_instances: int = 0
    wrong_acceptances_by_grammar: list[str] = field(default_factory=list)
    """Of whole grammars."""
    wrong_acceptances: list[str] = field(default_factory=list)
    wrong_refusals: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    compile_ms: list[float] = field(default_factory=list)


class Judge:
    """Decides instances by grammar and validator."""

    def __init__(self, builder: GrammarBuilder, tally: Tally) -> None:
        self._builder, self._tally = builder, tally

    def judge(self, case: SchemaCase) -> None:
        """Of a schema that passed its trial."""
        tally = self._tally
        whole = self._builder.matcher(json_grammar(read_schema(case.schema), STRICT_OPTIONS, closes=False))
        is_whole = not whole.is_error()
        matcher = whole if is_whole else self._builder.matcher(json_grammar(read_schema(case.schema), closes=False))
        try:
            validator = compile_schema(case.schema, Limits())
        except Refusal as refusal:
            tally.refused[f"validator {refusal.reason}"] += 1
            return
        tally.accepted += 1
        tally.whole_grammars += is_whole
        by_grammar = [self._fits(matcher, instance) for instance in case.instances]
        valid = [instance.is_valid for instance in case.instances]
        together = [
            fits and _validates(validator, instance) for fits, instance in zip(by_grammar, case.instances, strict=True)
        ]
        tally.num_instances += len(valid)
        tally.grammar_right += is_whole and by_grammar == valid
        tally.together_right += together == valid
        if is_whole:
            tally.wrong_acceptances_by_grammar += _wrong(case, by_grammar, valid, accepted=True)
        tally.wrong_acceptances += _wrong(case, together, valid, accepted=True)
        tally.wrong_refusals += _wrong(case, together, valid, accepted=False)

    def _fits(self, matcher: Any, instance: Instance) -> bool:
        state = matcher.deep_copy()
        tokens = self._builder.tokenizer.tokenize_str(instance.text)
        return bool(state.try_consume_tokens(tokens) == len(tokens) and (state.is_accepting() or state.is_stopped()))


def _validates(validator: CompiledSchema, instance: Instance) -> bool:
    try:
        return not validator.issues(parse(instance.text, max_depth=Limits().max_depth), brief=True)
    except BadJson:
        return False


def _wrong(case: SchemaCase, found: list[bool], valid: list[bool], *, accepted: bool) -> list[str]:
    return [
        f"{case.name}#{index}"
        for index, (has, should) in enumerate(zip(found, valid, strict=True))
        if has != should and has is accepted
    ]


async def measure(cases: Iterable[SchemaCase], tally: Tally) -> None:
    """Try and judge all."""
    tokenizer = load_tokenizer(pull(read_source(environ={}).shared(MeshConfig)))
    config = ConstraintConfig()
    limits = GrammarLimits(max_lexer_states=config.max_lexer_states, max_grammar_symbols=config.max_grammar_symbols)
    judge = Judge(GrammarBuilder(tokenizer.json, tokenizer.vocab_size, tokenizer.eos_token_ids, limits), tally)
    trials = GrammarTrials(tokenizer, tokenizer.vocab_size, config)
    await trials.warm_up()
    try:
        for case in cases:
            tally.num_schemas += 1
            if await _passes(trials, case, tally):
                judge.judge(case)
    finally:
        await trials.close()


async def _passes(trials: GrammarTrials, case: SchemaCase, tally: Tally) -> bool:
    started_s = time.perf_counter()
    try:
        await trials.check(Constraint(Kind.JSON_SCHEMA, case.schema), "")
    except StagemeshError as error:
        tally.refused[f"{error.reason}: {_cause(error.message)}"] += 1
        return False
    finally:
        tally.compile_ms.append((time.perf_counter() - started_s) * 1000)
    return True


def _cause(message: str) -> str:
    """Without what is particular to one schema."""
    return " ".join(word for word in message.split()[:9] if word.isalpha())


def summary(tally: Tally) -> dict[str, Any]:
    times = sorted(tally.compile_ms) or [0.0]
    return {
        "schemas": tally.num_schemas,
        "instances": tally.num_instances,
        "accepted": tally.accepted,
        "grammar_whole": tally.whole_grammars,
        "grammar_right": tally.grammar_right,
        "together_right": tally.together_right,
        "wrong_acceptances_by_grammar": len(tally.wrong_acceptances_by_grammar),
        "wrong_acceptances": len(tally.wrong_acceptances),
        "wrong_refusals": len(tally.wrong_refusals),
        "refused": dict(tally.refused.most_common()),
        "compile_p50_ms": round(statistics.median(times), 2),
        "compile_p99_ms": round(times[min(len(times) - 1, int(0.99 * len(times)))], 2),
        "compile_max_ms": round(times[-1], 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=Path, help="a folder of files in MaskBench's form")
    parser.add_argument(
        "--count",
        type=int,
        help="how many, drawn by the seed; by default all of a folder, or 1200",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_COUNT} schemas")
    parser.add_argument("--list", action="store_true", help="name what was decided wrongly")
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    count = QUICK_COUNT if args.quick else args.count
    cases = read_cases(args.schemas, count, args.seed) if args.schemas else generate(args.seed, count or 1200)
    tally = Tally()
    with no_lock() if args.busy else benchmark_lock():
        asyncio.run(measure(cases, tally))
    found = summary(tally)
    if args.list:
        for name in ("wrong_acceptances_by_grammar", "wrong_acceptances", "wrong_refusals"):
            print(name, *getattr(tally, name), sep="\n  ")
    if not args.json:
        for name, value in found.items():
            print(f"{name}: {value}")
    print(json.dumps({"machine": describe_machine(), **found} if args.json else found))


if __name__ == "__main__":
    main()
