"""Requests of every kind for tests of the engine's core: a grammar, parameters, arrivals and cancels."""

from __future__ import annotations

import random
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
from engine_support import EOS, VOCAB, Results, make_sequence
from hypothesis import strategies as st

from services.engine.core import EngineCore
from services.engine.draft_run import DraftRun
from services.engine.drafting import Fit
from services.engine.ending import Ending
from services.engine.kernels.native.token_mask import TokenMask
from services.engine.modes import Mode
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.sequence import Sequence
from stagemesh.api.common.v1 import common_pb2
from stagemesh.runtime.errors import InvalidRequest

ABORT = Ending(common_pb2.FINISH_REASON_ABORT)


class Guesses:
    """Guesses up to `most` tokens: those of `answers` where there are some, but each wrong with `wrong` probability."""

    def __init__(self, answers: dict[str, list[int]], *, most: int = 6, wrong: float = 0.0, seed: int = 0) -> None:
        self._answers = answers
        self._most, self._wrong = most, wrong
        self._random = random.Random(seed)
        self.accepted: list[int] = []
        self.num_drafted = 0

    def add_drafts(self, items: Seq[WorkItem], fit: Fit) -> list[WorkItem]:
        return [fit(item, self._guess(item.sequence)) if item.sequence.takes_drafts else item for item in items]

    def measured(self, runs: Seq[DraftRun], num_rows: int, seconds: float) -> None:
        self.accepted += [run.num_accepted for run in runs if run.item.drafts]
        self.num_drafted += sum(len(run.item.drafts) for run in runs)

    def forget(self, sequence: Sequence) -> None:
        pass

    def _guess(self, sequence: Sequence) -> list[int]:
        right = self._answers.get(sequence.sequence_id, [])[sequence.num_output :][
            : self._random.randint(0, self._most)
        ]
        return [self._random.randrange(VOCAB) if self._random.random() < self._wrong else token for token in right]


class Steps:
    """A grammar of `length` tokens: what is allowed follows from the tokens before, now and then it is a single one."""

    def __init__(self, seed: int, length: int) -> None:
        self._seed, self._length = seed, length
        self._taken: list[int] = []

    def allowed(self) -> npt.NDArray[np.bool_]:
        return np.unpackbits(self.allowed_bits(), bitorder="little", count=VOCAB).view(np.bool_)

    def allowed_bits(self) -> npt.NDArray[np.uint8]:
        return self._bits(self._taken)

    def prepare(self, guesses: Seq[int] = (), masks: Seq[TokenMask] = ()) -> None:
        for number, mask in enumerate(masks):
            if self.num_fitting(guesses[:number]) == number:
                mask.tell(self._bits([*self._taken, *guesses[:number]]))

    def is_within(self, bits: npt.NDArray[np.uint8]) -> bool:
        return not (self.allowed_bits() & ~bits).any()

    def admits(self, token: int) -> bool:
        return True

    def fork(self) -> Steps:
        other = Steps(self._seed, self._length)
        other._taken = list(self._taken)
        return other

    def accept(self, token: int) -> None:
        if token not in self._allowed(self._taken):
            raise InvalidRequest("INVALID_CONSTRAINT", "the token does not fit")
        self._taken.append(token)

    def forced(self) -> list[int]:
        forced: list[int] = []
        while len(own := self._allowed([*self._taken, *forced])) == 1 and own != [EOS]:
            forced += own
        return forced

    def num_fitting(self, tokens: Seq[int]) -> int:
        for number, token in enumerate(tokens):
            if token not in self._allowed([*self._taken, *tokens[:number]]):
                return number
        return len(tokens)

    def is_complete(self) -> bool:
        return False

    def was_cut(self) -> bool:
        return False

    def _bits(self, taken: Seq[int]) -> npt.NDArray[np.uint8]:
        allowed = np.zeros(VOCAB, dtype=np.bool_)
        allowed[self._allowed(taken)] = True
        return np.packbits(allowed, bitorder="little")

    def _allowed(self, taken: Seq[int]) -> list[int]:
        if len(taken) >= self._length:
            return [EOS]
        dice = random.Random(f"{self._seed} {list(taken)[-2:]} {len(taken)}")
        return dice.sample(range(1, VOCAB), 1 if dice.random() < 0.4 else 30)


PARAMS = [
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.7, seed=7, logprobs=2),
    SamplingParams(temperature=0.5, seed=9, top_p=0.9, top_k=20, min_p=0.01),
    SamplingParams(temperature=0.0, repetition_penalty=1.1, frequency_penalty=0.1, presence_penalty=0.2),
    SamplingParams(temperature=0.3, seed=3, stop=("1><", "2><", "3><"), min_tokens=12),
    SamplingParams(temperature=0.0, logit_bias={0: 7}, min_tokens=9),
]
requests = st.lists(
    st.tuples(
        st.integers(0, 99),  # prompt
        st.integers(1, 60),  # prompt length
        st.integers(1, 60),  # max tokens
        st.sampled_from([b"", b"x", b"y"]),
        st.sampled_from(PARAMS),
        st.one_of(st.none(), st.none(), st.integers(0, 9)),  # seed of a grammar
        st.integers(0, 12),  # arrives at step
        st.one_of(st.none(), st.integers(0, 20)),  # is cancelled at step
    ),
    min_size=1,
    max_size=6,
)
Request = tuple[int, int, int, bytes, SamplingParams, int | None, int, int | None]


def sequence_of(name: str, request: Request, mode: Mode | None = None, *, jumps_ahead: bool = False) -> Sequence:
    family, length, max_tokens, salt, params, grammar, _, _ = request
    prompt = [1 + (family * 7 + at * at) % 90 for at in range(min(length, 36))] + list(
        range(1, max(0, length - 36) + 1)
    )
    constraint = None if grammar is None else Steps(grammar, 25)
    sequence = make_sequence(
        name, prompt, salt=salt, params=params, max_tokens=max_tokens, constraint=constraint, mode=mode
    )
    sequence.jumps_ahead = jumps_ahead and params.logprobs is None
    return sequence


def same(results: Results, plain: Results, name: str) -> bool:
    """Whether a sequence got what it gets alone without guesses, as far as it came."""
    found = results.tokens[name]
    if results.ending(name) == ABORT:
        return found == plain.tokens[name][: len(found)]
    return (
        found == plain.tokens[name]
        and results.ending(name) == plain.ending(name)
        and results.logprobs[name] == plain.logprobs[name]
    )


def run_mix(core: EngineCore, mix: list[Request], mode: Mode | None = None, *, jumps_ahead: bool = False) -> Results:
    """Run requests as they arrive and are cancelled; no page may be left."""
    results = Results()
    for step in range(3000):
        for number, request in enumerate(mix):
            arrival, cancel = request[6:]
            if step == arrival:
                core.add(sequence_of(str(number), request, mode, jumps_ahead=jumps_ahead))
            if cancel is not None and step == arrival + cancel:
                core.end(str(number), ABORT)
        results.take(core.step().updates)
        core.check_integrity()
        if step >= 12 and not core.has_work():
            break
    results.take(core.step().updates)
    assert core.load().used_pages == 0
    return results
