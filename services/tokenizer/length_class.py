"""Pre-analysis, first form: how long a prompt is."""

from __future__ import annotations

from stagemesh.api.tokenizer.v1 import tokenizer_pb2

UP_TO_TOKENS: tuple[tuple[int, tokenizer_pb2.LengthClass.ValueType], ...] = (
    (128, tokenizer_pb2.LENGTH_CLASS_SHORT),
    (1_024, tokenizer_pb2.LENGTH_CLASS_MEDIUM),
    (8_192, tokenizer_pb2.LENGTH_CLASS_LONG),
)


def length_class(num_tokens: int) -> tokenizer_pb2.LengthClass.ValueType:
    """The class of a prompt of `num_tokens`."""
    for limit, name in UP_TO_TOKENS:
        if num_tokens <= limit:
            return name
    return tokenizer_pb2.LENGTH_CLASS_HUGE
