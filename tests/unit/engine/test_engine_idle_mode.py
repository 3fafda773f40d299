"""Idle mode: fewer threads for a trickle of small steps after sustained low load, all of them for anything more."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
from engine_native_steps import decoder_of, prompt_batch

from services.engine.scheduling.idle_mode import FEW_TOKENS, IdleLimits, IdleMode
from stagemesh.models.store import ModelFiles

LIMITS = IdleLimits(after_s=30, max_utilization=0.1)


class Engine:
    """Steps by a clock of its own."""

    def __init__(self, num_threads: int = 4) -> None:
        self.set: list[int] = []
        self.now_s = 0.0
        self.idle = IdleMode(LIMITS, num_threads, self.set.append, 0.0)

    def step(self, num_tokens: int = 1, seconds: float = 0.01, pause_s: float = 1.0) -> int:
        """The threads that it ran on."""
        self.now_s += pause_s
        self.idle.before_step(self.now_s, num_tokens)
        threads, started_s = self.idle.threads, self.now_s
        self.now_s += seconds
        self.idle.after_step(started_s, self.now_s)
        return threads


def test_a_trickle_of_small_steps_runs_on_one_thread_after_a_while() -> None:
    engine = Engine()
    threads = [engine.step() for _ in range(60)]
    assert threads[:25] == [4] * 25
    assert threads[35:] == [1] * 25
    assert engine.set == [1]


def test_more_to_do_has_all_threads_in_the_very_step_in_which_it_comes() -> None:
    engine = Engine()
    for _ in range(60):
        engine.step()
    assert engine.idle.is_idle
    assert engine.step(FEW_TOKENS + 1) == 4
    assert engine.step() == 4, "it takes a whole while again"
    assert engine.set == [1, 4]


def test_many_small_steps_are_no_low_load() -> None:
    engine = Engine()
    for _ in range(60):
        engine.step()
    threads = [engine.step(pause_s=0.001) for _ in range(2000)]
    assert threads[0] == 1
    assert threads[-1] == 4


def cpu_ticks() -> dict[str, int]:
    """Processor time of each thread of this process, in ticks."""
    ticks = {}
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        ticks[task.name] = int(fields[11]) + int(fields[12])
    return ticks


def test_limited_threads_stay_parked_and_change_no_bit(default_model_files: ModelFiles) -> None:
    before = set(cpu_ticks())
    decoder = decoder_of(default_model_files, threads=3)
    workers = set(cpu_ticks()) - before - {str(threading.get_native_id())}
    all_threads = np.array(decoder.step(prompt_batch([list(range(40, 72))]), None))
    decoder.limit_threads(1)
    started = cpu_ticks()
    for _ in range(12):
        alone = np.array(decoder.step(prompt_batch([list(range(40, 72))]), None))
    ended = cpu_ticks()
    spent = sum(ended[worker] - started[worker] for worker in workers if worker in ended and worker in started)
    mine = ended[str(threading.get_native_id())] - started[str(threading.get_native_id())]
    assert spent <= 1, "threads that are not needed do nothing"
    assert mine > 0
    assert np.array_equal(alone, all_threads)
    decoder.limit_threads(3)
    assert np.array_equal(np.array(decoder.step(prompt_batch([list(range(40, 72))]), None)), all_threads)
