"""The correction adapter: a LoRA that ranks candidates of a source. Only `decoder` and what imports it need torch."""
