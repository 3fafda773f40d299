"""What each of the twelve stages promises when it fails: one table, which the code reads and the README shows.

Deadlines are keys of the configuration; a request's own deadline is above all of them. A checkpoint is where a stage
begins again: nothing before it is lost, nothing after it has been seen by anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from services.gateway.stage_watch import Skips
from stagemesh.runtime.retry import RetryPolicy


@dataclass(frozen=True, kw_only=True)
class StagePolicy:
    runs_in: str
    deadline: str
    """Of one attempt: the key that sets it."""
    retries: RetryPolicy
    health: str
    """What is asked whether it is well: a service of grpc.health, or what stands for it."""
    checkpoint: str
    fallback: str
    """What is done instead, as the stage's report names it; `defer`: nothing else can be done now."""
    skips: Skips = Skips.NEVER
    """When the fallback is taken at once; else attempts go on until their end."""
    patience_s: float = 0.5
    """How long an answer may take at least before it is asked for again, and the stage for a sign of life."""


ENGINE_RETRIES = RetryPolicy(max_attempts=4)
_ENGINE = "stagemesh.api.engine.v1.EngineService"
_TOKENIZER = "stagemesh.api.tokenizer.v1.TokenizerService"


def _in_engine(fallback: str) -> StagePolicy:
    return StagePolicy(
        runs_in="engine",
        deadline="engine.healing.step_timeout_s",
        retries=ENGINE_RETRIES,
        health=_ENGINE,
        checkpoint="the step; on another engine, the last token delivered",
        fallback=fallback,
    )


POLICIES: Mapping[str, StagePolicy] = {
    "admit": StagePolicy(
        runs_in="gateway",
        deadline="gateway.ledger_timeout_s",
        retries=RetryPolicy(max_attempts=3, first_backoff_s=0.02),
        health="PING of the ledger Redis",
        checkpoint="the request as it came",
        fallback="no-ledger",
    ),
    "analyze": StagePolicy(
        runs_in="tokenizer",
        deadline="0.25 s within tokenize",
        retries=RetryPolicy(max_attempts=1),
        health=_TOKENIZER,
        checkpoint="the tokens",
        fallback="unanalyzed",
    ),
    "tokenize": StagePolicy(
        runs_in="tokenizer",
        deadline="gateway.tokenizer_timeout_s",
        # About 45 s in all, as `gateway.tokenizer_wait_s`: by then a lone one that stands still has been restarted.
        retries=RetryPolicy(max_attempts=60, first_backoff_s=0.1, max_backoff_s=1.5, max_faults=2),
        health=_TOKENIZER,
        checkpoint="the messages",
        fallback="defer",
    ),
    "cache": StagePolicy(
        runs_in="cache",
        deadline="gateway.cache_timeout_s, gateway.session_timeout_s",
        retries=RetryPolicy(max_attempts=2, first_backoff_s=0.01, max_faults=1),
        health="stagemesh.api.cache.v1.CacheService",
        checkpoint="the tokens; with a session, the messages",
        fallback="cold",
        skips=Skips.OPEN,
    ),
    "embed": _in_engine("reference"),
    "attend": _in_engine("reference"),
    "mlp": _in_engine("low-rank"),
    "norm": _in_engine("reference"),
    "sample": _in_engine("reference"),
    "detokenize": StagePolicy(
        runs_in="tokenizer",
        deadline="gateway.tokenizer_timeout_s",
        retries=RetryPolicy(max_attempts=20),
        health=_TOKENIZER,
        checkpoint="the tokens of the answer so far",
        fallback="defer",
    ),
    "validate": StagePolicy(
        runs_in="validator",
        deadline="gateway.validator_timeout_s",
        retries=RetryPolicy(max_attempts=3, first_backoff_s=0.1, max_backoff_s=0.5, max_faults=2),
        health="stagemesh.api.validator.v1.ValidatorService",
        checkpoint="the text",
        fallback="unvalidated",
        skips=Skips.OPEN,
    ),
    "correct": StagePolicy(
        runs_in="corrector",
        deadline="gateway.corrector_timeout_s",
        retries=RetryPolicy(max_attempts=3, first_backoff_s=0.1, max_backoff_s=0.5, max_faults=2),
        health="stagemesh.api.corrector.v1.CorrectorService",
        checkpoint="the text and its verdict",
        fallback="verdict",
        skips=Skips.OPEN,
        patience_s=3.0,  # it may generate once more, which is not done twice lightly
    ),
}
"""By the stage's name, in the order of a request."""
