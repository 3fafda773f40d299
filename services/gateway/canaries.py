"""The smallest work of each stage that runs elsewhere: what runs it does more than answer for its health."""

from __future__ import annotations

from collections.abc import Mapping

import grpc

from services.gateway.pulse import Canary
from stagemesh.api.corrector.v1 import corrector_pb2, corrector_pb2_grpc
from stagemesh.api.tokenizer.v1 import tokenizer_pb2, tokenizer_pb2_grpc
from stagemesh.api.validator.v1 import validator_pb2, validator_pb2_grpc
from stagemesh.runtime.channel import call_metadata

TEXT = "."


def canaries(channels: Mapping[str, grpc.aio.Channel], model: str) -> dict[str, Canary]:
    """By the stage's name. The cache has none: its budgets are shorter than any look at it."""
    tokenizer = tokenizer_pb2_grpc.TokenizerServiceStub(channels["tokenize"])
    validator = validator_pb2_grpc.ValidatorServiceStub(channels["validate"])
    corrector = corrector_pb2_grpc.CorrectorServiceStub(channels["correct"])
    return {
        "tokenize": lambda timeout_s: tokenizer.Prepare(
            tokenizer_pb2.PrepareRequest(model=model, prompt=TEXT), timeout=timeout_s, metadata=call_metadata()
        ),
        "validate": lambda timeout_s: validator.Validate(
            validator_pb2.ValidateRequest(text=TEXT), timeout=timeout_s, metadata=call_metadata()
        ),
        "correct": lambda timeout_s: corrector.Correct(
            corrector_pb2.CorrectRequest(text=TEXT), timeout=timeout_s, metadata=call_metadata()
        ),
    }
