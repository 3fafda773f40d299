"""transformers on PyTorch in process, one static batch. Arguments: model folder, dtype, threads."""

from __future__ import annotations

import sys

import torch
from transformers import AutoModelForCausalLM
from worker_loop import OnTokens, serve


def main() -> None:
    torch.set_num_threads(int(sys.argv[3]))
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=getattr(torch, sys.argv[2])).eval()

    @torch.inference_mode()
    def run(prompts: list[list[int]], num_output: int, on_tokens: OnTokens) -> None:
        tokens, cache = torch.tensor(prompts), None  # [B, S], then [B, 1]
        for _ in range(num_output):
            output = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache, tokens = output.past_key_values, output.logits[:, -1].argmax(-1, keepdim=True)
            on_tokens(len(prompts))

    serve(run)


if __name__ == "__main__":
    main()
