"""The same requests on two engine cores in turn, so that what else the machine does falls on both."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.core import CoreLimits, EngineCore
from services.engine.drafting import Drafting
from services.engine.engine import LoadedModel
from services.engine.modes import Mode
from services.engine.page_table import Owner
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary


@dataclass(frozen=True)
class Run:
    """One run of equal requests, from the first token of the last that starts to the end of all."""

    tokens: Seq[Seq[int]]
    wall_s: float
    cpu_s: float
    """Processor time of the whole process."""
    steps: int


@dataclass(frozen=True, kw_only=True)
class Requests:
    """What is asked, `count` times at once; sampled ones with a seed each."""

    prompt: Seq[int]
    num_output: int
    temperature: float = 0.0
    count: int = 1
    ends: bool = True
    """Whether the end token ends an answer."""
    mode: Mode | None = None


def core_with(model: LoadedModel, drafting: Drafting | None) -> EngineCore:
    """Uses the model's pages: of several cores, one may have work."""
    eos = frozenset(model.config.eos_token_ids)
    vocabulary = Vocabulary(model.tokenizer.all_token_bytes, model.tokenizer.special_ids, eos)
    limits = CoreLimits(num_pages=model.num_pages, max_running=64, prefill_chunk_size=512, stage_sample_interval=16)
    return EngineCore(model.runner, vocabulary, limits, drafting)


def run(core: EngineCore, requests: Requests) -> Run:
    """Raises the StagemeshError that ended a sequence."""
    tokens: dict[str, list[int]] = {str(number): [] for number in range(requests.count)}
    for name in tokens:
        core.add(_sequence(name, requests))
    while core.has_work() and not all(tokens.values()):
        _take(core, tokens)
    started_s, started_cpu_s, before = time.perf_counter(), time.process_time(), core.load().steps
    while core.has_work():
        _take(core, tokens)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    return Run(list(tokens.values()), wall_s, cpu_s, core.load().steps - before)


def compare(plain: EngineCore, other: EngineCore, requests: Requests, repeats: int) -> dict[str, object]:
    """Medians and their ratios, above 1 where `other` is faster; the answers must be the same, token for token."""
    pairs = [(run(plain, requests), run(other, requests)) for _ in range(repeats)]
    assert all(one.tokens == two.tokens for one, two in pairs), "the answers differ"
    num_tokens = sum(map(len, pairs[0][0].tokens))
    walls, cpus = ([(getattr(a, name), getattr(b, name)) for a, b in pairs] for name in ("wall_s", "cpu_s"))
    load = other.load()
    return {
        "tokens": num_tokens,
        "steps": pairs[-1][1].steps,
        "plain_steps": pairs[-1][0].steps,
        "ratio": round(_ratio(walls), 2),
        "cpu_ratio": round(_ratio(cpus), 2),
        "tok_s": round(num_tokens / statistics.median(two for _, two in walls), 1),
        "plain_tok_s": round(num_tokens / statistics.median(one for one, _ in walls), 1),
        "cpu_ms_per_token": round(1e3 * statistics.median(two for _, two in cpus) / num_tokens, 2),
        "plain_cpu_ms_per_token": round(1e3 * statistics.median(one for one, _ in cpus) / num_tokens, 2),
        "accepted_of_drafted": round(load.accepted_tokens / max(1, load.draft_tokens), 2),
    }


def _ratio(pairs: Seq[tuple[float, float]]) -> float:
    return statistics.median(one for one, _ in pairs) / statistics.median(two for _, two in pairs)


def _sequence(name: str, requests: Requests) -> Sequence:
    params = SamplingParams(temperature=requests.temperature, seed=int(name), ignore_eos=not requests.ends)
    return Sequence(
        sequence_id=name,
        owner=Owner("bench", b"", requests.mode or ""),  # without a salt nothing is reused
        tokens=list(requests.prompt),
        num_prompt=len(requests.prompt),
        num_delivered=0,
        params=params,
        max_total_tokens=len(requests.prompt) + requests.num_output,
        mode=requests.mode,
    )


def _take(core: EngineCore, tokens: dict[str, list[int]]) -> None:
    for update in core.step().updates:
        tokens[update.sequence_id] += update.tokens
        if update.finished is not None and update.finished.ending.error is not None:
            raise update.finished.ending.error
