"""Messages → token IDs and back, with the files of the model that answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence

from tokenizers import Tokenizer

from stagemesh.api.common.v1.common_pb2 import ChatMessage, ModelIdentity
from stagemesh.models.chat_template import ChatTemplate, compile_template
from stagemesh.models.errors import ModelError
from stagemesh.models.store import locate
from stagemesh.models.tokenizer_file import TokenizerFile, load_tokenizer
from stagemesh.runtime.errors import Precondition, StagemeshError, Unavailable
from stagemesh.runtime.mesh_config import MeshConfig

MARKS = [chr(code) for code in range(0xFDD0, 0xFDF0)]
"""Unicode noncharacters; one that does not occur keeps a caller's words from being read as control tokens."""


class Renderer:
    def __init__(self, file: TokenizerFile, tokenizer: Tokenizer, template: ChatTemplate) -> None:
        self._file = file
        self._tokenizer = tokenizer
        self._tokenizer.encode_special_tokens = True  # what looks like a control token in a text stays text
        self._template = template
        texts = sorted(file.special_tokens, key=len, reverse=True)
        self._special = re.compile(f"({'|'.join(map(re.escape, texts))})") if texts else None

    @property
    def tokenizer_hash(self) -> str:
        return self._file.tokenizer_hash

    def encode(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The prompt's token IDs. Raises InvalidRequest when the template cannot take the messages."""
        mark = next(mark for mark in MARKS if not any(mark in m.content or mark in m.name for m in messages))
        guarded = [
            {"role": m.role, "content": self._guard(m.content, mark)}
            | ({"name": self._guard(m.name, mark)} if m.name else {})
            for m in messages
        ]
        prompt = self._template.render(guarded, special_texts=self._file.template_tokens)
        token_ids: list[int] = []
        for piece in self._special.split(prompt) if self._special else [prompt]:
            if piece in self._file.special_tokens:
                token_ids.append(self._file.special_tokens[piece])
            elif text := piece.replace(mark, ""):
                token_ids.extend(self._tokenizer.encode(text, add_special_tokens=False).ids)
        return token_ids

    def token_ids(self, text: str) -> list[int]:
        """Of a plain text: what looks like a control token in it stays text."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids

    def decode(self, token_ids: Sequence[int]) -> str:
        skipped = self._file.special_ids
        data = b"".join(self._file.token_bytes(token_id) for token_id in token_ids if token_id not in skipped)
        return data.decode(errors="replace")

    def _guard(self, text: str, mark: str) -> str:
        return self._special.sub(lambda match: match[0][0] + mark + match[0][1:], text) if self._special else text


class RendererSet:
    """Renderers by model, loaded when first needed (half a second each)."""

    def __init__(self, config: MeshConfig) -> None:
        self._config = config
        self._loading: dict[str, asyncio.Task[Renderer]] = {}

    async def find(self, identity: ModelIdentity) -> Renderer:
        """Raises Unavailable when the model's files are not here, Precondition when they are others than meant."""
        name = self._config.resolve_model(identity.model)
        if name is None:
            raise Precondition("MODEL_MISMATCH", f"the corrector knows no model named {identity.model[:100]!r}")
        if name not in self._loading:
            self._loading[name] = asyncio.create_task(asyncio.to_thread(_load, self._config, name))
        try:
            renderer = await asyncio.shield(self._loading[name])
        except StagemeshError:
            self._loading.pop(name, None)  # the files may be there next time
            raise
        if identity.tokenizer_hash not in ("", renderer.tokenizer_hash):
            raise Precondition("MODEL_MISMATCH", f"the corrector has another tokenizer for the model {name}")
        return renderer


def _load(config: MeshConfig, name: str) -> Renderer:
    try:
        file = load_tokenizer(locate(config, name))
        if not file.chat_template:
            raise Precondition("NO_CHAT_TEMPLATE", f"the model {name} has no chat template")
        return Renderer(file, file.build(), compile_template(file.chat_template))
    except ModelError as error:
        raise Unavailable("MODEL_FILES_MISSING", str(error)) from None
