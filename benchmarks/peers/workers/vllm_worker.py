"""vLLM on the CPU in process, continuous batching. Arguments: model folder, dtype, threads."""

from __future__ import annotations

import sys

from vllm import EngineArgs, LLMEngine, SamplingParams
from worker_loop import OnTokens, serve


def main() -> None:
    engine = LLMEngine.from_engine_args(
        EngineArgs(
            model=sys.argv[1], dtype=sys.argv[2], max_model_len=4096, max_num_seqs=64, enable_prefix_caching=False
        )
    )
    next_id = iter(range(1_000_000_000))

    def run(prompts: list[list[int]], num_output: int, on_tokens: OnTokens) -> None:
        params = SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=num_output, detokenize=False)
        for prompt in prompts:
            engine.add_request(str(next(next_id)), {"prompt_token_ids": prompt}, params)
        seen: dict[str, int] = {}
        while engine.has_unfinished_requests():
            outputs = engine.step()
            lengths = {output.request_id: len(output.outputs[0].token_ids) for output in outputs}
            on_tokens(sum(length - seen.get(name, 0) for name, length in lengths.items()))
            seen |= lengths

    serve(run)


if __name__ == "__main__":
    main()
