"""How long a stored page is worth keeping: pure functions of what the cache has seen, and a learner on top of them.

The cache service runs it on live traffic, `benchmarks/cache_trace.py` on a recorded one (decision 0215).
"""

from __future__ import annotations

from stagemesh.runtime.kv_value.belief import Belief
from stagemesh.runtime.kv_value.learner import Horizons, LearnerLimits, ReturnLearner
from stagemesh.runtime.kv_value.returns import Gaps
from stagemesh.runtime.kv_value.seen_prompts import SeenPrompts
from stagemesh.runtime.kv_value.visit import Region, Visit, features
from stagemesh.runtime.kv_value.worth import cost_s, horizon_s, touched

__all__ = [
    "Belief",
    "Gaps",
    "Horizons",
    "LearnerLimits",
    "Region",
    "ReturnLearner",
    "SeenPrompts",
    "Visit",
    "cost_s",
    "features",
    "horizon_s",
    "touched",
]
