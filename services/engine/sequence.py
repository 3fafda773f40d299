"""One request's way through the engine."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from services.engine.adapter import LoadedAdapter
from services.engine.healing.degradation import Degradation
from services.engine.kernels.native.token_mask import TokenMask
from services.engine.kv.sequence_kv import SequenceKv
from services.engine.modes import Mode
from services.engine.page_table import Owner, PageTable, PublicPrefix
from services.engine.sampling_params import SamplingParams
from services.engine.scoring import Scoring
from services.engine.stages import StageSeconds
from services.engine.stop import StopMatcher
from stagemesh.runtime.faults import Fault

MAX_DECODE_ROWS = 32
"""A longer run of forced tokens is computed in chunks, as a prompt is."""


class State(enum.Enum):
    WAITING = "waiting"
    RESTORING = "restoring"
    """It has pages, into which another thread loads what is stored of it."""
    RUNNING = "running"
    FINISHED = "finished"


class Constraint(Protocol):
    """What the answer must look like; sees every output token."""

    def allowed(self) -> npt.NDArray[np.bool_]:
        """Which tokens may come next, [V] (an end token where the answer may end)."""

    def allowed_bits(self) -> npt.NDArray[np.uint8]:
        """The same as bits, token t in bit t % 8 of byte t // 8."""

    def prepare(self, guesses: Seq[int] = (), masks: Seq[TokenMask] = ()) -> None:
        """Work out what will be asked of this state, and of those after guesses at the next tokens.

        The masks, of this state and of those after each guess, are told as soon as they are known.
        """

    def is_within(self, bits: npt.NDArray[np.uint8]) -> bool:
        """Whether `bits` has all tokens that may come next, or only one may, which needs no comparing."""

    def admits(self, token: int) -> bool:
        """Whether an allowed token leaves enough tokens to complete the answer; where not, another one is the only one
        allowed from now on."""

    def accept(self, token: int) -> None:
        """Take an output token."""

    def forced(self) -> list[int]:
        """The tokens that must come next, perhaps not all of them: after those before it, each is the only one that
        `allowed` gives."""

    def num_fitting(self, tokens: Seq[int]) -> int:
        """How many of `tokens` could come next, one after the other."""

    def fork(self) -> Constraint:
        """The same state, to go on independently; where tokens run out, it may allow more."""

    def is_complete(self) -> bool:
        """Whether nothing can follow."""

    def was_cut(self) -> bool:
        """Whether the answer was brought to its end because its tokens ran out."""


@dataclass(eq=False, kw_only=True)
class Sequence:
    """Prompt and output of one sequence, and where its computation stands.

    tokens: [0, num_prompt) the prompt, [num_prompt, len) the output, of which the caller has brought
    [num_prompt, num_prompt + num_delivered). KV is there for [0, num_computed).
    """

    sequence_id: str
    owner: Owner
    public: PublicPrefix | None = None
    tokens: list[int]
    num_prompt: int
    num_delivered: int
    params: SamplingParams
    max_total_tokens: int
    """Prompt and output together, set by max_tokens, the context and the KV pool."""
    deadline_s: float = float("inf")
    """On the monotonic clock."""
    mode: Mode | None = None
    """The weights that compute it; None: those that the engine has first."""
    adapter: LoadedAdapter | None = None
    """What computes beside them."""
    constraint: Constraint | None = None
    stop: StopMatcher = field(default_factory=lambda: StopMatcher(()))
    scoring: Scoring | None = None
    """Its tokens are given and scored, instead of drawn."""

    reads_logits: bool = False
    """Whether more is made of its logits than the choice of a token, so that the kernels must compute all."""

    faults: list[Fault] = field(default_factory=list)
    """On purpose; each happens in one of its steps."""
    degradations: list[Degradation] = field(default_factory=list)
    """Stages of its steps that were done by a fallback."""
    num_replays: int = 0
    num_requeues: int = 0
    """How often it has begun again, for want of memory or because its keys and values were spoiled."""
    is_guarded: bool = False
    """Whether all its steps are computed stage by stage, since its keys and values were spoiled unnoticed."""

    state: State = State.WAITING
    takes_drafts: bool = True
    """Whether guesses at its next tokens may be computed with it."""
    num_drafted: int = 0
    """Guesses that were computed."""
    num_accepted: int = 0
    """Guesses that were right."""
    jumps_ahead: bool = False
    """Whether tokens that its grammar forces are taken without asking the model."""
    num_forced: int = 0
    """Tokens taken so."""
    num_forwards: int = 0
    """Passes of the model that yielded tokens of it."""
    num_told: int = 0
    """Output tokens that the caller has brought or been told of."""
    num_computed: int = 0
    num_cached: int = 0
    """Prompt tokens whose pages were reused or loaded when it was first admitted."""
    num_skips: int = 0
    """How often a later sequence was admitted before this one."""
    num_expected: int = 0
    """Tokens that it seemed to have to compute when it came."""
    arrived_s: float = field(default_factory=time.monotonic)
    ttft_target_s: float = 0.0
    """What its first token should take; 0: what its length bucket has."""
    table: PageTable = field(init=False)
    kv: SequenceKv = field(default_factory=SequenceKv)
    stage_seconds: StageSeconds = field(default_factory=StageSeconds)
    admitted_s: float | None = None

    def __post_init__(self) -> None:
        self.renew_table()
        self.num_told = self.num_delivered

    def renew_table(self) -> None:
        """Go on without the present pages."""
        self.table = PageTable(self.owner, self.public)
        self.table.max_reused_tokens = None if self.scoring is None else self.scoring.first

    @property
    def num_in_all(self) -> int:
        """Itself, and the branches that have not begun, with theirs."""
        waits = self.scoring is not None and not self.scoring.has_branched
        return 1 + sum(branch.num_in_all for branch in self.scoring.branches) if self.scoring and waits else 1

    @property
    def num_output(self) -> int:
        return len(self.tokens) - self.num_prompt

    @property
    def num_uncomputed(self) -> int:
        return len(self.tokens) - self.num_computed

    @property
    def is_decoding(self) -> bool:
        """Whether it takes part in steps with all that is left of it: its last token, and a few that were forced."""
        is_short = self.num_computed >= self.num_prompt and self.num_uncomputed <= MAX_DECODE_ROWS
        return is_short and self.scoring is None
