"""What a step's logits are for: the kernels need not compute those that cannot be chosen."""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from services.engine.kernels.native.library import Choice
from services.engine.noise import noise_key
from services.engine.sampling_params import SamplingParams
from services.engine.scheduler import WorkItem

ALL_LOGITS = Choice(wants_all=True)
LARGEST_LOGIT = Choice()


def choices(item: WorkItem) -> Iterator[Choice]:
    """For each row of logits of the item, as the sampler will choose from it."""
    sequence, params = item.sequence, item.sequence.params
    if sequence.reads_logits or sequence.constraint is not None or not can_screen(params):
        yield from [ALL_LOGITS] * item.num_sampled
        return
    num_output = item.end - sequence.num_prompt
    if num_output < params.min_tokens:
        yield from [ALL_LOGITS] * item.num_sampled
        return
    lowered = array("i", [*sequence.tokens, *item.drafts]) if params.has_penalties else None
    if params.greedy:
        yield from [Choice(lowered=lowered) if lowered else LARGEST_LOGIT] * item.num_sampled
        return
    for position in range(num_output, num_output + item.num_sampled):
        yield Choice(params.temperature, noise_key(params.seed, position), lowered)


def can_screen(params: SamplingParams) -> bool:
    """Whether the token depends on the best logits alone, and none is raised before it is chosen."""
    cuts = not params.greedy and (params.top_k > 0 or params.top_p != 1 or params.min_p > 0)
    raises = bool(params.logit_bias) or params.repetition_penalty < 1
    raises = raises or params.presence_penalty < 0 or params.frequency_penalty < 0
    return params.logprobs is None and not cuts and not raises
