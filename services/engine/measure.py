"""How fast an engine core computes, in process: equal requests with a fixed number of tokens, greedy, no early end.

`stagemesh bench engine` and the scripts in `benchmarks/` measure with these functions, so their figures mean the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from services.engine.core import CoreLimits, EngineCore
from services.engine.engine import LoadedModel
from services.engine.page_table import Owner
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary

NUM_COMMON_TOKENS = 40_000
"""Real vocabularies have more."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Requests that arrive together."""

    num_sequences: int = 1
    num_prompt: int
    """Prompt tokens of each."""
    num_output: int
    """Output tokens of each."""
    vocab_size: int = NUM_COMMON_TOKENS
    """Prompts hold tokens below this."""


DECODE = Workload(num_prompt=16, num_output=128)
"""A single stream at short context."""
PREFILL_512 = Workload(num_prompt=512, num_output=1)
PREFILL_2048 = Workload(num_prompt=2048, num_output=1)
BATCH_16 = Workload(num_sequences=16, num_prompt=128, num_output=128)
BATCH_64 = Workload(num_sequences=64, num_prompt=128, num_output=128)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """One run of a workload. `…_cpu_ms` is the process's own processor time a token, comparable on a busy machine."""

    prefill_tok_s: float
    """Prompt tokens a second, until every sequence has its first token."""
    prefill_cpu_ms: float
    decode_tok_s: float
    """Output tokens a second after that; 0 where there are none."""
    decode_cpu_ms: float
    output_tok_s: float
    """Output tokens a second from the beginning, prefill included."""


def bench_core(model: LoadedModel, *, max_running: int = 64) -> EngineCore:
    """A core that steps as fast as it can, warmed up. Uses the model's pages: one core at a time."""
    vocabulary = Vocabulary(model.tokenizer.all_token_bytes, frozenset(), frozenset())
    limits = CoreLimits(
        num_pages=model.num_pages,
        max_running=max_running,
        prefill_chunk_size=512,
        stage_sample_interval=16,
    )
    core = EngineCore(model.runner, vocabulary, limits)
    run_workload(core, Workload(num_prompt=16, num_output=4))
    return core


def prompt_tokens(number: int, num_tokens: int, vocab_size: int = NUM_COMMON_TOKENS) -> list[int]:
    """The prompt of sequence `number`: always the same, and no two alike. `vocab_size`: more than 100."""
    spread = vocab_size - 100
    return [(number * 7919 + at * 31) % spread + 100 for at in range(num_tokens)]


def run_workload(core: EngineCore, workload: Workload) -> Speed:
    """Run all of it to the end. Raises the StagemeshError that ended a sequence."""
    for number in range(workload.num_sequences):
        core.add(_sequence(number, workload))
    num_tokens = num_first = 0
    answered: set[str] = set()
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    prefilled_s, prefilled_cpu_s = started_s, started_cpu_s
    while core.has_work():
        for update in core.step().updates:
            num_tokens += len(update.tokens)
            if update.tokens:
                answered.add(update.sequence_id)
            if update.finished is not None and update.finished.ending.error is not None:
                raise update.finished.ending.error
        if not num_first and len(answered) == workload.num_sequences:
            num_first = num_tokens
            prefilled_s, prefilled_cpu_s = time.perf_counter(), time.process_time()
    ended_s, ended_cpu_s = time.perf_counter(), time.process_time()
    assert num_tokens == workload.num_sequences * workload.num_output, f"{num_tokens} output tokens of {workload}"
    num_prompts = workload.num_sequences * workload.num_prompt
    num_decoded = num_tokens - num_first
    return Speed(
        prefill_tok_s=num_prompts / (prefilled_s - started_s),
        prefill_cpu_ms=1e3 * (prefilled_cpu_s - started_cpu_s) / num_prompts,
        decode_tok_s=num_decoded / (ended_s - prefilled_s),
        decode_cpu_ms=1e3 * (ended_cpu_s - prefilled_cpu_s) / max(1, num_decoded),
        output_tok_s=num_tokens / (ended_s - started_s),
    )


def _sequence(number: int, workload: Workload) -> Sequence:
    return Sequence(
        sequence_id=f"bench-{number}",
        owner=Owner("bench", b""),  # without a salt nothing is reused
        tokens=prompt_tokens(number, workload.num_prompt, workload.vocab_size),
        num_prompt=workload.num_prompt,
        num_delivered=0,
        params=SamplingParams(temperature=0.0, ignore_eos=True),
        max_total_tokens=workload.num_prompt + workload.num_output,
    )
