"""Continuations of one prompt as a tree: what several begin with is computed once."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from itertools import takewhile

from services.engine.scoring import Scoring
from services.engine.sequence import Sequence

MIN_SAVED = 4
"""Tokens that sharing must save: fewer cost less than a pass."""

Make = Callable[[str, Seq[int], Scoring], Sequence]
"""From a name, tokens behind the prompt and what is wanted of them."""


class ScoreBranches:
    """`root` is what is wanted of the prompt; its branches, and theirs, are the continuations without what they share.

    What is shared takes a pass of its own before what follows, so it must save some tokens.
    """

    def __init__(self, continuations: Seq[Seq[int]], num_prompt: int, make: Make) -> None:
        """Each continuation has at least one token."""
        self._continuations = continuations
        self._num_prompt = num_prompt
        self._make = make
        self._num_made = 0
        self._places: list[list[tuple[Scoring, int, int]]] = [[] for _ in continuations]
        """For each token of each continuation: where it is scored, in which row and which column."""
        everything = range(len(continuations))
        following, branches = self._split(everything, 0)
        self.root = Scoring(num_prompt - 1, [following], branches)
        self._place(self.root, 0, following, everything, 0)

    def values(self) -> list[list[float]]:
        """For each continuation, the log-probabilities of its tokens; when all have ended."""
        return [[scoring.values[row][column] for scoring, row, column in places] for places in self._places]

    def _split(self, members: Seq[int], depth: int) -> tuple[list[int], list[Sequence]]:
        """The tokens that follow behind the first `depth` of these continuations, and the branches from there on."""
        groups: dict[int, list[int]] = {}
        for member in members:
            if len(self._continuations[member]) > depth:
                groups.setdefault(self._continuations[member][depth], []).append(member)
        branches = [self._branch(part, depth) for group in groups.values() for part in self._parts(group, depth)]
        return list(groups), [branch for branch in branches if branch is not None]

    def _parts(self, group: list[int], depth: int) -> list[list[int]]:
        """Together where they share enough from `depth` on, else each alone."""
        saved = (len(group) - 1) * len(self._shared(group, depth))
        return [group] if saved >= MIN_SAVED else [[member] for member in group]

    def _shared(self, members: Seq[int], depth: int) -> list[int]:
        """The tokens that all of them have from `depth` on."""
        each = zip(*(self._continuations[member][depth:] for member in members), strict=False)
        return [tokens[0] for tokens in takewhile(lambda tokens: len(set(tokens)) == 1, each)]

    def _branch(self, members: Seq[int], depth: int) -> Sequence | None:
        """What these continuations share from `depth` on, at least a token; None where nothing is to be computed."""
        shared = self._shared(members, depth)
        following, branches = self._split(members, depth + len(shared))
        computed = shared if following else shared[:-1]
        if not computed:
            return None
        targets = [[token] for token in shared[1:]]
        scoring = Scoring(self._num_prompt + depth, [*targets, following] if following else targets, branches)
        self._place(scoring, len(targets), following, members, depth + len(shared))
        for member in members:
            self._places[member][:0] = [(scoring, row, 0) for row in range(len(targets))]
        self._num_made += 1
        return self._make(f"/{self._num_made}", [*self._continuations[members[0]][:depth], *computed], scoring)

    def _place(self, scoring: Scoring, row: int, following: Seq[int], members: Seq[int], depth: int) -> None:
        """Note where the tokens at `depth` are scored, before those that come after them."""
        for member in members:
            if len(self._continuations[member]) > depth:
                column = following.index(self._continuations[member][depth])
                self._places[member].insert(0, (scoring, row, column))
