"""The candidate's tokenizer: its prompts where the stable model's tokens do not fit, and text from its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer

from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.gateway.v1 import gateway_pb2
from stagemesh.models.chat_template import compile_template
from stagemesh.models.errors import ModelError
from stagemesh.models.store import locate
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import InvalidRequest, Precondition
from stagemesh.runtime.mesh_config import MeshConfig


class CandidateTokenizer:
    """Thread-safe once made; making one takes about half a second."""

    def __init__(self, file: TokenizerFile) -> None:
        self._file = file
        self._tokenizer: Tokenizer = file.build()
        self._template = compile_template(file.chat_template) if file.chat_template else None

    @property
    def tokenizer_hash(self) -> str:
        return self._file.tokenizer_hash

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text without special tokens; bytes that are no UTF-8 become U+FFFD."""
        skipped = self._file.special_ids
        data = b"".join(self._file.token_bytes(token_id) for token_id in token_ids if token_id not in skipped)
        return data.decode("utf-8", "replace")

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def prompt(self, request: gateway_pb2.InferenceRequest) -> list[int]:
        """The request rendered and encoded for the candidate.

        Raises InvalidRequest when that is impossible: the turns of a session are known only as the stable model's
        tokens, and a model without a chat template takes no messages.
        """
        if request.session_id:
            raise InvalidRequest("SESSION_NEEDS_SAME_TOKENIZER", "the session's turns are in another model's tokens")
        if request.WhichOneof("input") == "prompt":
            return self.encode(request.prompt)
        if self._template is None:
            raise InvalidRequest("NO_CHAT_TEMPLATE", "the candidate takes no messages")
        messages = [_for_template(message) for message in request.chat.messages]
        return self.encode(self._template.render(messages, special_texts=self._file.template_tokens))


def load_candidate_tokenizer(mesh: MeshConfig, model: str, tokenizer_hash: str) -> CandidateTokenizer:
    """The tokenizer of `model` on this machine. Raises Precondition when it is not there or not the engine's."""
    try:
        tokenizer = CandidateTokenizer(load_tokenizer(locate(mesh, model)))
    except ModelError as error:
        raise Precondition("CANDIDATE_TOKENIZER_MISSING", str(error)) from error
    if tokenizer.tokenizer_hash != tokenizer_hash:
        raise Precondition("CANDIDATE_TOKENIZER_DIFFERS", f"the engine's {model} has another tokenizer than this one")
    return tokenizer


def _for_template(message: common_pb2.ChatMessage) -> dict[str, str]:
    return {"role": message.role, "content": message.content, **({"name": message.name} if message.name else {})}
