"""Contenders take turns on each case, round after round, so that a disturbance of the machine hits all alike."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.peers.cache import say
from benchmarks.peers.case import Case, Measurement
from benchmarks.peers.contender import Contender, PeerError

KEEP_FRACTION = 0.6
"""A contender below this share of a case's best first run is not run on it again: it cannot become the best peer."""


@dataclass(frozen=True)
class Key:
    """Whose measurement of what."""

    contender: str
    case: str
    threads: int


@dataclass(kw_only=True)
class Runs:
    """All measurements, in the order they were taken, and why some contenders have none."""

    measurements: dict[Key, list[Measurement]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """By contender; the last line of what it said."""


@dataclass(kw_only=True)
class Rounds:
    """Rounds with one number of threads."""

    contenders: Sequence[Contender]
    cases: Sequence[Case]
    threads: int
    protected: str
    """The contender that runs in every round."""
    runs: Runs
    _took_s: dict[tuple[str, str], float] = field(default_factory=dict, init=False)

    def run(self, num_rounds: int, deadline_s: float) -> None:
        """The first round is always completed; later ones as far as they end before `deadline_s` (monotonic)."""
        for number in range(num_rounds):
            for case in self.cases:
                entrants = self._entrants(case, number)
                needed_s = sum(self._took_s.get((entry.name, case.name), 0.0) for entry in entrants)
                if number and time.monotonic() + needed_s > deadline_s:
                    continue
                for contender in entrants:
                    self._run_one(contender, case, number)

    def _entrants(self, case: Case, number: int) -> list[Contender]:
        entrants = [
            contender
            for contender in self.contenders
            if contender.name not in self.runs.errors
            and self._takes_part(contender, case)
            and (number == 0 or self._can_be_best(contender, case))
        ]
        start = number % max(len(entrants), 1)  # nobody always follows the same one
        return entrants[start:] + entrants[:start]

    def _takes_part(self, contender: Contender, case: Case) -> bool:
        if contender.name == self.protected or not case.rivals:
            return True
        running = {entry.family for entry in self.contenders if entry.name not in self.runs.errors}
        return contender.family == next((family for family in case.rivals if family in running), "")

    def _can_be_best(self, contender: Contender, case: Case) -> bool:
        if contender.name == self.protected:
            return True
        peers = [entry.name for entry in self.contenders if entry.name != self.protected]
        best = max((self._first(name, case) for name in peers), default=0.0)
        return self._first(contender.name, case) >= KEEP_FRACTION * best

    def _first(self, name: str, case: Case) -> float:
        measurements = self.runs.measurements.get(Key(name, case.name, self.threads))
        return measurements[0].tok_s if measurements else 0.0

    def _run_one(self, contender: Contender, case: Case, number: int) -> None:
        where, started_s = f"{self.threads} threads, {case.name}, round {number + 1}", time.monotonic()
        try:
            measurement = contender.measure(case, self.threads)
        except PeerError as error:
            say(where, f"{contender.name}: {error}")
            self.runs.errors[contender.name] = str(error)
            return
        self._took_s[contender.name, case.name] = time.monotonic() - started_s
        say(where, f"{contender.name}: {measurement.tok_s:.1f} tok/s, {measurement.peak_rss_mb:.0f} MB")
        self.runs.measurements.setdefault(Key(contender.name, case.name, self.threads), []).append(measurement)
