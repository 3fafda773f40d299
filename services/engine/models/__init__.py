"""The decoder that Llama, Qwen2 and Qwen3 share."""
