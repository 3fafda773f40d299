"""A model without weights for tests of the engine's core: its next token is a function of the whole context."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt

from services.engine.block_manager import PAGE_SIZE
from services.engine.checks import SensitiveChecks
from services.engine.choices import choices
from services.engine.core import CoreLimits, EngineCore
from services.engine.drafting import Drafting
from services.engine.ending import Ending
from services.engine.kernels.native.library import OUT_OF_REACH, Choice
from services.engine.logprobs import TokenLogprobs
from services.engine.modes import Mode
from services.engine.page_table import Owner
from services.engine.sampler import ReferenceSampler
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem
from services.engine.sequence import Constraint, Sequence
from services.engine.stages import Probe
from services.engine.stop import StopMatcher
from services.engine.updates import Finished, Update
from services.engine.vocabulary import Vocabulary

VOCAB = 97
EOS = 0
TEXTS = tuple(b"" if token == EOS else b"<%d>" % token for token in range(VOCAB))
VOCABULARY = Vocabulary(TEXTS, frozenset({EOS}), frozenset({EOS}))


Logits = Callable[[Seq[int]], npt.NDArray[np.float32]]


def logits_of(context: Seq[int]) -> npt.NDArray[np.float32]:
    """[VOCAB], a deterministic function of every token of the context."""
    digest = zlib.crc32(np.asarray(context, dtype=np.int64).tobytes())
    logits = np.random.default_rng(digest).normal(size=VOCAB).astype(np.float32)
    logits[EOS] = -5
    return logits


def copying_logits(context: Seq[int]) -> npt.NDArray[np.float32]:
    """As `logits_of`, but the token of some places before is likely to come again."""
    logits = logits_of(context)
    tokens = [int(token) for token in context]
    if len(tokens) > 9 and zlib.crc32(bytes(tokens[-2:])) % 5:
        logits[tokens[-7]] += 4
    return logits


def greedy_answer(prompt: Seq[int], num_tokens: int) -> list[int]:
    """What a single undisturbed run gives."""
    context = list(prompt)
    for _ in range(num_tokens):
        context.append(int(logits_of(context).argmax()))
    return context[len(prompt) :]


def without_forbidden(row: npt.NDArray[np.float32], choice: Choice) -> npt.NDArray[np.float32]:
    """As the kernels leave out logits that cannot be chosen, where they know them by now."""
    if choice.mask is None or choice.mask.bits is None:
        return row
    allowed = np.unpackbits(choice.mask.bits, bitorder="little", count=len(row)).view(np.bool_)
    return np.where(allowed, row, np.float32(OUT_OF_REACH))


class FakeRunner:
    """Keeps tokens where a model keeps keys and values, and reads the context back through the page tables.

    What a sequence is computed on must come from the weights of its own mode; only a run that names another one, to
    draft, may build on its own values after them.
    """

    def __init__(self, num_pages: int, logits: Logits = logits_of) -> None:
        self._logits = logits
        self.slots = np.full((num_pages + 1) * PAGE_SIZE, -1, dtype=np.int64)
        self.modes: Seq[Mode] = ()
        self.written_by: list[Mode | None] = [None] * len(self.slots)
        self.sampler = ReferenceSampler()
        self.fails_on: set[str] = set()
        self.gives_nan_on: set[str] = set()
        self.gives_nan_on_guesses = False
        self.num_runs = 0
        self.num_tokens = 0

    def run(self, items: Seq[WorkItem], probe: Probe, mode: Mode | None = None) -> npt.NDArray[np.float32]:
        self.num_runs += 1
        if broken := self.fails_on & {item.sequence.sequence_id for item in items}:
            raise RuntimeError(f"no luck with {broken}")
        rows = []
        for item in items:
            sequence, table = item.sequence, item.sequence.table.pages
            slot = [table[at // PAGE_SIZE] * PAGE_SIZE + at % PAGE_SIZE for at in range(item.row_end)]
            for at in slot[item.start :]:
                self.written_by[at] = mode or sequence.mode
            if mode in (None, sequence.mode):
                assert {self.written_by[at] for at in slot} == {sequence.mode}, "computed on another mode's values"
            self.slots[slot[item.start :]] = item.token_ids
            context = self.slots[slot]
            assert context[: item.end].tolist() == sequence.tokens[: item.end], "a page holds other tokens"
            self.num_tokens += item.num_rows
            for end, choice in zip(range(item.row_end - item.num_sampled, item.row_end), choices(item), strict=True):
                nan = sequence.sequence_id in self.gives_nan_on or (self.gives_nan_on_guesses and end >= item.end)
                row = np.full(VOCAB, np.nan, np.float32) if nan else self.logits_by(mode, context[: end + 1])
                rows.append(row if nan else without_forbidden(row, choice))
        return np.stack(rows) if rows else np.empty((0, VOCAB), np.float32)

    def logits_by(self, mode: Mode | None, context: Seq[int]) -> npt.NDArray[np.float32]:
        logits = self._logits(context)
        return logits if mode is None else logits + 0.3 * self._logits([*context, len(mode)])  # nearly the same

    def zero(self, pages: Seq[int]) -> None:
        for page in pages:
            self.slots[page * PAGE_SIZE : (page + 1) * PAGE_SIZE] = -1

    def copy_page(self, page: int, to: int) -> None:
        self.slots[to * PAGE_SIZE : (to + 1) * PAGE_SIZE] = self.slots[page * PAGE_SIZE : (page + 1) * PAGE_SIZE]
        for at in range(PAGE_SIZE):
            self.written_by[to * PAGE_SIZE + at] = self.written_by[page * PAGE_SIZE + at]


def make_core(
    runner: FakeRunner,
    num_pages: int,
    *,
    max_running: int = 4,
    chunk: int = 32,
    drafting: Drafting | None = None,
    checks: SensitiveChecks | None = None,
) -> EngineCore:
    limits = CoreLimits(
        num_pages=num_pages,
        max_running=max_running,
        prefill_chunk_size=chunk,
        stage_sample_interval=4,
    )
    return EngineCore(runner, VOCABULARY, limits, drafting, checks)


def make_sequence(
    sequence_id: str,
    prompt: Seq[int],
    *,
    salt: bytes = b"",
    tenant: str = "t",
    params: SamplingParams | None = None,
    max_tokens: int = 8,
    deadline_s: float = float("inf"),
    constraint: Constraint | None = None,
    mode: Mode | None = None,
) -> Sequence:
    params = params or SamplingParams(temperature=0.0)
    return Sequence(
        sequence_id=sequence_id,
        owner=Owner(tenant, salt, mode or ""),
        tokens=list(prompt),
        num_prompt=len(prompt),
        num_delivered=0,
        params=params,
        max_total_tokens=len(prompt) + max_tokens,
        deadline_s=deadline_s,
        constraint=constraint,
        mode=mode,
        stop=StopMatcher(params.stop),
    )


class Results:
    """Collects updates by sequence."""

    def __init__(self) -> None:
        self.tokens: dict[str, list[int]] = {}
        self.finished: dict[str, Finished] = {}
        self.logprobs: dict[str, list[TokenLogprobs]] = {}
        self.queue: dict[str, list[int]] = {}

    def take(self, updates: Seq[Update]) -> None:
        for update in updates:
            assert update.sequence_id not in self.finished, "news after the end"
            self.tokens.setdefault(update.sequence_id, []).extend(update.tokens)
            self.logprobs.setdefault(update.sequence_id, []).extend(update.logprobs)
            if update.queue:
                self.queue.setdefault(update.sequence_id, []).append(update.queue.position)
            if update.finished:
                self.finished[update.sequence_id] = update.finished

    def ending(self, sequence_id: str) -> Ending:
        return self.finished[sequence_id].ending


def run_to_end(core: EngineCore, *, max_steps: int = 2000) -> Results:
    results = Results()
    for _ in range(max_steps):
        if not core.has_work():
            break
        results.take(core.step().updates)
        core.check_integrity()
    results.take(core.step().updates)
    assert not core.has_work(), f"still busy after {max_steps} steps"
    return results
