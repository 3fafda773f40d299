"""Where the content of a value is judged: a step is given text, schema, source and errors, and proposes.

The chain applies what it proposes as it applies its own changes: each is listed, below the threshold it is only
reported, and the whole is validated afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from stagemesh.runtime.deadline import Deadline
from stagemesh.validation.anchors import Anchor
from stagemesh.validation.verdict import Issue

if TYPE_CHECKING:
    from services.corrector.adapters.in_use import Adapter
    from stagemesh.api.common.v1 import common_pb2


class Absent(Enum):
    """The only value of this type: there is nothing at a place."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, kw_only=True)
class Proposal:
    """Put `value` at `pointer`; ABSENT removes what is there. Array items are appended at the array's length."""

    pointer: str
    value: Any
    """Parsed JSON (`stagemesh.validation.json_text`), or ABSENT."""
    reason: str
    confidence: float
    """See `changes`: below `CERTAIN` the correction is not certain, below the request's threshold it is not applied."""
    step: str = "content"


@dataclass(frozen=True, kw_only=True)
class Doubt:
    """A value that nothing determines, or that contradicts the source, though there is nothing to put in its place."""

    pointer: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class Findings:
    proposals: tuple[Proposal, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    confirmed: tuple[str, ...] = ()
    """Pointers whose present values are known to be right: earlier changes there count as certain."""
    settles_all: bool = False
    """Every value that the schema knows is confirmed or proposed on evidence: how the text was read matters no more."""
    forwards: int = 0
    """Passes of a model that it took."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Whose text it is, and what a model is asked with."""

    request_id: str = ""
    tenant_id: str = ""
    model: common_pb2.ModelIdentity | None = None
    """Of the engine that gave the answer, without an adapter; None: unknown."""
    adapter: Adapter | None = None
    """That the model is to be asked with; None: the model alone."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A text after the steps that mend its form."""

    text: str
    """As it came."""
    value: Any
    """As the form steps left it, parsed; ABSENT where the text holds no JSON."""
    schema: Any
    """Parsed: an object, true or false."""
    source: str
    """What the answer was made from, as one text; empty if there is none."""
    anchors: tuple[Anchor, ...] = ()
    issues: tuple[Issue, ...] = ()
    """What is wrong with `value` still."""
    changed: tuple[str, ...] = ()
    """Pointers of the values that the form steps changed."""
    unsure: tuple[str, ...] = ()
    """Pointers of changes that are not sure enough for the correction to be certain."""
    is_open: bool = True
    """Something in it is in doubt, or was changed without being sure."""
    asked: Asked = Asked()
    """Only for proposers."""


class ContentStep(Protocol):
    """Runs in the sandbox, without a model: fast, pure and bounded."""

    def __call__(self, problem: Problem) -> Findings: ...


class Proposer(Protocol):
    """Runs in the service, with a model behind it. Raises StagemeshError when it cannot be asked."""

    async def propose(self, problem: Problem, deadline: Deadline) -> Findings: ...


def joined_source(texts: Sequence[str]) -> str:
    """One text of several, in order."""
    return "\n\n".join(text for text in texts if text)
