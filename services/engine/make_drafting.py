"""Chooses where drafts come from, by the configuration and by what the model's runner can do."""

from __future__ import annotations

from services.engine.config import SpeculationConfig
from services.engine.drafting import Drafting, NoDrafting
from services.engine.progressive import CHECKED, DRAFTS, ProgressiveDrafting
from services.engine.runner import Runner
from services.engine.speculation import Speculation
from services.engine.vocabulary import Vocabulary


def make_drafting(config: SpeculationConfig, runner: Runner, vocabulary: Vocabulary) -> Drafting:
    """Prompt lookup where it is on; behind it, drafts by turbo weights where precise ones are there to check them."""
    drafting: Drafting = NoDrafting() if config.method == "off" else Speculation(config.max_draft_tokens)
    if config.progressive and {CHECKED, DRAFTS} <= set(runner.modes):
        return ProgressiveDrafting(drafting, runner, vocabulary, config.max_draft_tokens)
    return drafting
