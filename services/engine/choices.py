"""What a step's logits are for: the kernels need not compute those that cannot be chosen."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import repeat

from services.engine.kernels.native.library import Choice
from services.engine.kernels.native.token_mask import TokenMask
from services.engine.noise import noise_key
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem

ALL_LOGITS = Choice(wants_all=True)
LARGEST_LOGIT = Choice()


def choices(item: WorkItem) -> Iterator[Choice]:
    """For each row of logits of the item, as the sampler will choose from it."""
    sequence, params = item.sequence, item.sequence.params
    reports = sequence.reads_logits or params.logprobs is not None
    if reports or (sequence.constraint is not None and not item.masks):
        yield from [ALL_LOGITS] * item.num_sampled
        return
    masks: Iterable[TokenMask | None] = item.masks or repeat(None, item.num_sampled)
    num_output = item.end - sequence.num_prompt
    if not can_screen(params) or num_output < params.min_tokens:
        yield from (ALL_LOGITS if mask is None else Choice(wants_all=True, mask=mask) for mask in masks)
        return
    lowered = array("i", [*sequence.tokens, *item.drafts]) if params.has_penalties else None
    if params.greedy and not lowered and not item.masks:
        yield from [LARGEST_LOGIT] * item.num_sampled
        return
    for position, mask in enumerate(masks, start=num_output):
        key = 0 if params.greedy else noise_key(params.seed, position)
        yield Choice(params.temperature, key, lowered, mask=mask)


def can_screen(params: SamplingParams) -> bool:
    """Whether the token depends on the best logits alone, and none is raised before it is chosen."""
    cuts = not params.greedy and (params.top_k > 0 or params.top_p != 1 or params.min_p > 0)
    raises = bool(params.logit_bias) or params.repetition_penalty < 1
    raises = raises or params.presence_penalty < 0 or params.frequency_penalty < 0
    return not cuts and not raises
