"""The `tokenizer` section of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from stagemesh.runtime.config import Section


class TokenizerConfig(Section):
    listen: str = ""
    """`host:port`; empty: the first of `addresses.tokenizer`."""
    library: Literal["auto", "tokenizers"] = "auto"
    """`auto` takes fastokens for vocabularies on which it agrees with the reference library at start."""
    threads: int = Field(default=2, ge=1, le=256)
    """Large texts that are worked on at the same time."""
    max_waiting: int = Field(default=256, ge=0)
    """Large texts that wait for a thread; what comes on top is refused with TOKENIZER_BUSY."""
    inline_chars: int = Field(default=8_192, ge=0)
    """Texts up to this length are encoded at once, without a thread (up to about a millisecond)."""
    max_text_bytes: int = Field(default=4 * 1024 * 1024, ge=1_024)
    """Text of one call in UTF-8, all messages or texts together."""
    max_messages: int = Field(default=4_096, ge=1)
    """Messages of one conversation, stored ones included."""
    template_timeout_s: float = Field(default=5.0, gt=0)
    """How long a chat template may render."""
    max_streams: int = Field(default=16_384, ge=1)
    """Open detokenization streams of one call."""
    stream_idle_s: float = Field(default=600.0, gt=0)
    """At the limit, a stream that has been idle for this long makes room for a new one."""
    max_pending_chars: int = Field(default=4 * 1024 * 1024, ge=1_024)
    """Text that waits for a slow reader of a detokenization call; then its chunks wait too."""
