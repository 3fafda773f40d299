"""Tokens that the grammar leaves no choice about are taken without asking the model.

They are the very tokens that the sampler would have to choose, since the grammar's mask allows nothing else there (see
`Constraint.forced`); so whoever jumps, and how far, never changes an answer. Their KV is computed by the next step,
all in one pass with the token that follows them.
"""

from __future__ import annotations

from services.engine.ending import Ending, take_token
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary

MAX_JUMPS = 64
"""Runs of forced tokens taken at once; a grammar that forces more goes on with the next step."""


def jump(sequence: Sequence, vocabulary: Vocabulary) -> Ending | None:
    """Append what is forced after the sequence's tokens; gives the ending that it causes.

    Raises as `take_token`.
    """
    if not sequence.jumps_ahead or sequence.constraint is None:
        return None
    for _ in range(MAX_JUMPS):
        forced = list(sequence.constraint.forced())
        if not forced:
            break
        for token in forced:
            sequence.num_forced += 1
            if (ending := take_token(sequence, token, vocabulary)) is not None:
                return ending
    return None
