"""Stored KV: pages on their way between the engine's pool, host memory and the KV Redis."""
