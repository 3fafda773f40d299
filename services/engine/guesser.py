"""Guesses at one sequence's next tokens: what its grammar forces, and what a passage of its own tokens goes on with."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from services.engine.draft_policy import Chance
from services.engine.prompt_lookup import MAX_LENGTH, PromptLookup
from services.engine.sequence import Sequence

FORCED = MAX_LENGTH + 1
"""The source of a token that the grammar forces; smaller numbers are lengths of agreement."""
PRIORS = (0.3, 0.5, 0.3, 0.5, 0.6, 0.7, 0.7, 0.8, 0.8, 0.8, 0.85, 0.85, 0.85, 0.99)
"""Chances by source, before anything was seen."""
assert len(PRIORS) == FORCED + 1
MIN_CHANCE = 0.2
"""When the first token is less likely than this, no more are looked for."""


@dataclass(frozen=True)
class Guess:
    """Tokens that may come next, each with where it is from."""

    tokens: Seq[int] = ()
    sources: Seq[int] = ()


class Guesser:
    """Learns from every token that comes, whether it was guessed in vain, rightly, or without computing the guess."""

    def __init__(self) -> None:
        self._lookup = PromptLookup()
        self._chances = [Chance(prior) for prior in PRIORS]
        self.guess = Guess()

    def look(self, sequence: Sequence, max_tokens: int) -> Guess:
        """Guess anew, after the sequence's present tokens."""
        passage = self._lookup.follow(sequence.tokens, sequence.num_prompt)
        first = passage.length if passage else 0
        found = self._lookup.guess(sequence.tokens, max_tokens if self._chances[first].value >= MIN_CHANCE else 1)
        forced = [] if sequence.constraint is None else sequence.constraint.forced()[:max_tokens]
        tokens = found if found[: len(forced)] == forced else forced
        if sequence.constraint is not None and len(tokens) > len(forced):
            tokens = tokens[: sequence.constraint.num_fitting(tokens)]
        numbers = range(len(tokens))
        self.guess = Guess(tokens, [FORCED if at < len(forced) else min(MAX_LENGTH, first + at) for at in numbers])
        return self.guess

    def chances(self) -> list[float]:
        """Of each token of the guess, to be right if those before it are."""
        return [self._chances[source].value for source in self.guess.sources]

    def saw(self, taken: Seq[int]) -> None:
        """The tokens that came after those which the guess was made at."""
        for token, guessed, source in zip(taken, self.guess.tokens, self.guess.sources, strict=False):
            self._chances[source].saw(token == guessed)
            if token != guessed:
                break
        self.guess = Guess()
