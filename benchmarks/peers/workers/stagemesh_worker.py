"""Stagemesh's engine core in process on the native kernels. Arguments: threads."""

from __future__ import annotations

import sys

from worker_loop import OnTokens, serve

from benchmarks.peers.checkpoint import default_model
from services.engine.block_manager import Owner
from services.engine.config import EngineConfig
from services.engine.core import CoreLimits, EngineCore
from services.engine.engine import load_model
from services.engine.sampling_params import SamplingParams
from services.engine.sequence import Sequence
from services.engine.vocabulary import Vocabulary

MAX_RUNNING = 64


def main() -> None:
    model = load_model(default_model(), EngineConfig(threads=int(sys.argv[1]), backend="native"))
    limits = CoreLimits(
        num_pages=model.num_pages,
        max_running=MAX_RUNNING,
        prefill_chunk_size=512,
        max_step_ms=0,
        stage_sample_interval=16,
    )
    core = EngineCore(model.runner, Vocabulary(model.tokenizer.all_token_bytes, frozenset(), frozenset()), limits)

    def run(prompts: list[list[int]], num_output: int, on_tokens: OnTokens) -> None:
        for number, prompt in enumerate(prompts):
            core.add(
                Sequence(
                    sequence_id=str(number),
                    owner=Owner("bench", b""),
                    tokens=list(prompt),
                    num_prompt=len(prompt),
                    num_delivered=0,
                    params=SamplingParams(temperature=0.0, ignore_eos=True),
                    max_total_tokens=len(prompt) + num_output,
                )
            )
        while core.has_work():
            on_tokens(sum(len(update.tokens) for update in core.step().updates))

    serve(run)


if __name__ == "__main__":
    main()
