"""The peers' side of `worker.py`: read cases from stdin, answer with measurements. Standard library only."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

VOCABULARY = 40_000
FIRST_TOKEN = 100
"""Below it lie control tokens."""


Case = dict[str, Any]
"""The fields of `case.Case`."""

MeasureCase = Callable[[Case, int], tuple[int, float]]
"""The case, and the number of the run; gives tokens and seconds."""


class OnTokens(Protocol):
    def __call__(self, count: int) -> None: ...


Run = Callable[[list[list[int]], int, OnTokens], None]
"""Compute an answer of exactly so many tokens to each prompt, calling back with the number of new ones at each step."""


def serve(run: Run) -> None:
    """Warm up, then measure each case with `run`."""
    run(prompts(0, 2, 16), 4, lambda count: None)  # what is done once is not measured
    answer_cases(lambda case, number: measure(run, case, number))


def answer_cases(measure_case: MeasureCase) -> None:
    """Answer cases from stdin on the pipe that we were given, until stdin ends."""
    with os.fdopen(int(os.environ["ANSWERS_FD"]), "w", buffering=1) as answers:
        answers.write(json.dumps({"ready": True}) + "\n")
        for number, line in enumerate(sys.stdin, start=1):
            tokens, seconds = measure_case(json.loads(line), number)
            answer = {"tokens": tokens, "seconds": seconds, "peak_rss_mb": peak_rss_mb()}
            answers.write(json.dumps(answer) + "\n")


def measure(run: Run, case: Case, number: int) -> tuple[int, float]:
    """Tokens and seconds of one run. Raises RuntimeError when the engine gave another number of tokens."""
    texts = prompts(number, case["num_requests"], case["num_prompt"])
    tokens, first_s, first_tokens = 0, 0.0, 0

    def on_tokens(count: int) -> None:
        nonlocal tokens, first_s, first_tokens
        tokens += count
        if not first_s and tokens:
            first_s, first_tokens = time.perf_counter(), tokens

    started_s = time.perf_counter()
    run(texts, case["num_output"], on_tokens)
    ended_s = time.perf_counter()
    expected = case["num_requests"] * case["num_output"]
    if tokens != expected:
        raise RuntimeError(f"{tokens} tokens instead of {expected}")
    return {
        "decode": (tokens - first_tokens, ended_s - first_s),
        "prefill": (case["num_requests"] * case["num_prompt"], first_s - started_s),
        "output": (tokens, ended_s - started_s),
    }[case["counts"]]


def prompts(number: int, num_requests: int, num_prompt: int) -> list[list[int]]:
    """Token IDs that differ from the first one on between requests and runs, so that no cached prefix helps."""
    return [
        [(number * 104_729 + request * 7919 + at * 31) % VOCABULARY + FIRST_TOKEN for at in range(num_prompt)]
        for request in range(num_requests)
    ]


def peak_rss_mb() -> float:
    """Highest resident memory of this process, files mapped into it included."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) * 1024 / 1e6
