"""onnxruntime-genai in process, one static batch. Arguments: model folder, threads (set in the folder's config)."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime_genai as genai
from worker_loop import OnTokens, serve


def main() -> None:
    config = genai.Config(sys.argv[1])
    config.overlay(f'{{"model": {{"decoder": {{"session_options": {{"intra_op_num_threads": {int(sys.argv[2])}}}}}}}}}')
    model = genai.Model(config)

    def run(prompts: list[list[int]], num_output: int, on_tokens: OnTokens) -> None:
        num_prompt = len(prompts[0])
        params = genai.GeneratorParams(model)
        params.set_search_options(
            batch_size=len(prompts),
            max_length=num_prompt + num_output,
            min_length=num_prompt + num_output,  # no early end
            do_sample=False,
        )
        generator = genai.Generator(model, params)
        generator.append_tokens(np.array(prompts, dtype=np.int32))
        for _ in range(num_output):
            generator.generate_next_token()
            on_tokens(len(prompts))

    serve(run)


if __name__ == "__main__":
    main()
