"""What more knowledge would be worth on recorded requests, and how much of it the records hold.

`goes_on` knows of each conversation whether it goes on, not when; `goes_on_90_20` takes only 90 % of those that do for
such, and 20 % of the others. `hindsight` has all details of a request and its conversation, answers included, each in
tenths, and weights fitted on the other half of the conversations, their future included. `auc_*`: of two pages, of
which one is used again and one is not, how often the first has the higher chance (0.5 is guessing).
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np

from benchmarks.trace_ours import REFIT_EVERY_S, ScoredBlocks
from benchmarks.trace_requests import BLOCK_TOKENS, TraceRequest, TraceVisit, visits
from stagemesh.runtime.kv_value import LearnerLimits, ReturnLearner, horizon_s
from stagemesh.runtime.kv_value.returns import Floats, Gaps, Observed, chances, fit

NUM_BINS = 10
SPREAD = 0.5
"""Of a bin's weight around the whole's."""
HOPELESS, SURE = 1e-4, 1.0 - 1e-4


def oracles(requests: Sequence[TraceRequest], capacity: int) -> dict[str, float]:
    """Hit ratios and AUC values by name."""
    seen = list(visits(requests))
    returned = shares_returned(seen)  # [V, region]
    uses = sum(len(request.blocks) for request in requests)
    goes_on = returned.max(axis=1) > 0  # [V]

    def ratio(chance: Floats) -> float:
        return round(hits(seen, chance, capacity) / uses, 4)

    ours, hindsight = chances_of_ours(seen), chances_in_hindsight(seen, returned)
    named = {"goes_on": ratio(certain(goes_on))}
    for recall, wrong in ((95, 10), (90, 20), (90, 30), (80, 20), (70, 30)):
        draw = random.Random(recall * 100 + wrong)
        told = np.array([draw.random() < (recall if goes else wrong) / 100 for goes in goes_on])
        named[f"goes_on_{recall}_{wrong}"] = ratio(certain(told))
    return named | {
        "hindsight": ratio(hindsight),
        "auc_ours": round(auc(ours, seen, returned), 3),
        "auc_hindsight": round(auc(hindsight, seen, returned), 3),
    }


def shares_returned(seen: Sequence[TraceVisit]) -> Floats:
    """[V, region]: which share of the known and of the new full blocks a later request uses."""
    last = {block: index for index, visit in enumerate(seen) for block in visit.request.blocks}
    shares = np.zeros((len(seen), 2))
    for index, visit in enumerate(seen):
        again = [last[block] > index for block in visit.request.blocks[: visit.request.num_full_blocks]]
        known = min(visit.num_known_blocks, len(again))
        # The first block is common to all: it says nothing of a conversation.
        for region, part in enumerate((again[1:known], again[max(1, known) :])):
            shares[index, region] = sum(part) / len(part) if part else 0.0
    return shares


def sizes(seen: Sequence[TraceVisit]) -> Floats:
    """[V, region], in blocks beyond the first."""
    ends = [(visit.num_known_blocks, visit.request.num_full_blocks) for visit in seen]
    return np.array([(max(0, min(known, full) - 1), max(0, full - max(1, known))) for known, full in ends], float)


def hits(seen: Sequence[TraceVisit], chance: Floats, capacity: int) -> int:
    """With the same order of eviction as ours, and these chances [V, region]."""
    tau_s = LearnerLimits().tau_s
    held, found = ScoredBlocks(capacity, tau_s), 0
    for visit, (known, new) in zip(seen, chance.tolist(), strict=True):
        request = visit.request
        horizons = horizon_s(known, tau_s), horizon_s(new, tau_s)
        for depth, block in enumerate(request.blocks):
            found += block in held
            if depth < request.num_full_blocks:
                held.use(block, depth, request.at_s, horizons[depth >= visit.num_known_blocks])
        held.evict()
    return found


def certain(goes_on: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Floats:
    """[V] → [V, region]."""
    return np.repeat(np.where(goes_on, SURE, HOPELESS)[:, None], 2, axis=1)


def chances_of_ours(seen: Sequence[TraceVisit]) -> Floats:
    """[V, region], as ours has them when it decides."""
    limits = LearnerLimits()
    learner, given, next_refit_s = ReturnLearner(limits), [], REFIT_EVERY_S
    for index, visit in enumerate(seen):
        at_s = visit.request.at_s
        if at_s >= next_refit_s:
            learner.refit(at_s)
            next_refit_s = at_s + REFIT_EVERY_S
        horizons = learner.visited(index, visit.visit, at_s, visit.previous)
        given.append([math.exp(seconds / limits.tau_s) for seconds in (horizons.known_s, horizons.new_s)])
    return np.array(given)


def chances_in_hindsight(seen: Sequence[TraceVisit], returned: Floats) -> Floats:
    """[V, region]: of each half of the conversations from the other."""
    half = halves(seen)
    columns = binned(details(seen))  # [V, C]
    weight, chance = np.sqrt(sizes(seen) * BLOCK_TOKENS), np.zeros_like(returned)
    num_columns = columns.shape[1]
    for region in (0, 1):
        for taught in (False, True):
            rows = (half == taught) & (weight[:, region] > 0)
            share = float(np.average(returned[rows, region], weights=weight[rows, region])) if rows.any() else 0.5
            prior = np.zeros(num_columns)
            prior[0] = math.log(max(share, HOPELESS) / max(1.0 - share, HOPELESS))
            observed = Observed(
                rows=columns[rows],
                ages_s=np.full(int(rows.sum()), 1e9),
                returned=returned[rows, region],
                has_returned=np.full(int(rows.sum()), True),
                sizes=weight[rows, region] / max(float(weight[rows, region].mean()), 1e-9)
                if rows.any()
                else weight[:0, 0],
            )
            weights, _ = fit(observed, prior, prior, np.eye(num_columns) / SPREAD**2, Gaps())
            chance[half != taught, region] = chances(weights, columns[half != taught])
    return chance


def halves(seen: Sequence[TraceVisit]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """[V]: which half a conversation belongs to, by chance."""
    of: list[bool] = []
    draw = random.Random(5)
    for visit in seen:
        of.append(draw.random() < 0.5 if visit.previous is None else of[visit.previous])
    return np.array(of)


def details(seen: Sequence[TraceVisit]) -> Floats:
    """[V, D]: all that the records say of a request and of its conversation so far, the answer's length too."""
    rows, turns_of, first_s, num_next = [], [0] * len(seen), [0.0] * len(seen), [0] * len(seen)
    for index, visit in enumerate(seen):
        request, previous = visit.request, visit.previous
        before = None if previous is None else seen[previous]
        turns_of[index] = 1 + (0 if previous is None else turns_of[previous])
        first_s[index] = request.at_s if previous is None else first_s[previous]
        siblings = 0 if previous is None else num_next[previous]
        if previous is not None:
            num_next[previous] += 1
        then = before.visit if before is not None else None
        rows.append(
            (
                request.prompt_tokens,
                request.answer_tokens,
                turns_of[index],
                visit.visit.known_tokens,
                visit.visit.new_tokens,
                request.prompt_tokens - visit.visit.remembered_tokens if before is not None else -1,
                visit.visit.remembered_tokens - visit.visit.known_tokens if before is not None else -1,
                visit.visit.idle_s if before is not None else -1,
                then.idle_s if then is not None else -1,
                then.new_tokens if then is not None else -1,
                before.request.answer_tokens if before is not None else -1,
                request.at_s - first_s[index],
                siblings,
                request.prompt_tokens % BLOCK_TOKENS,
            )
        )
    return np.array(rows, float)


def binned(values: Floats) -> Floats:
    """[V, D] → [V, 1 + D * NUM_BINS]: one, then of each detail which tenth of its values it lies in."""
    columns = [np.ones(len(values))]
    for detail in values.T:
        edges = np.quantile(detail, np.linspace(0, 1, NUM_BINS + 1)[1:-1])
        tenth = np.searchsorted(edges, detail, side="right")
        columns += [(tenth == number).astype(float) for number in range(NUM_BINS)]
    return np.stack(columns, axis=1)


def auc(chance: Floats, seen: Sequence[TraceVisit], returned: Floats) -> float:
    """Area under the curve, each region counting by its blocks; 0.5 where all or none return."""
    num_blocks = sizes(seen).reshape(-1)
    values, place = np.unique(chance.reshape(-1), return_inverse=True)
    again = np.bincount(place, num_blocks * returned.reshape(-1), len(values))  # by chance, the lowest first
    gone = np.bincount(place, num_blocks * (1.0 - returned.reshape(-1)), len(values))
    total = float(again.sum() * gone.sum())
    return float((again * (np.cumsum(gone) - gone / 2)).sum() / total) if total else 0.5
