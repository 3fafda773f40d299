"""OpenVINO GenAI, continuous batching, in process. Arguments: model folder, threads."""

from __future__ import annotations

import sys

import numpy as np
import openvino as ov
import openvino_genai as genai
from worker_loop import OnTokens, serve


def main() -> None:
    folder, threads = sys.argv[1], int(sys.argv[2])
    scheduler = genai.SchedulerConfig()
    scheduler.max_num_seqs = 64
    scheduler.max_num_batched_tokens = 2048
    scheduler.enable_prefix_caching = False
    scheduler.cache_size = 1
    properties = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}
    pipeline = genai.ContinuousBatchingPipeline(folder, scheduler, "CPU", properties)

    def run(prompts: list[list[int]], num_output: int, on_tokens: OnTokens) -> None:
        config = genai.GenerationConfig()
        config.do_sample = False
        config.ignore_eos = True
        config.max_new_tokens = num_output
        handles = [
            pipeline.add_request(number, ov.Tensor(np.array([prompt], dtype=np.int64)), config)
            for number, prompt in enumerate(prompts)
        ]
        while pipeline.has_non_finished_requests():
            pipeline.step()
            on_tokens(sum(_read(handle) for handle in handles))

    serve(run)


def _read(handle: genai.GenerationHandle) -> int:
    if not handle.can_read():
        return 0
    return sum(len(output.generated_ids) for output in handle.read().values())


if __name__ == "__main__":
    main()
