"""An adapter in memory, and how many sequences still need it."""

from __future__ import annotations

from dataclasses import dataclass

from stagemesh.runtime.kv_keys import adapter_label


@dataclass(eq=False, kw_only=True)
class LoadedAdapter:
    """One generation of an adapter. Each counter is written by one thread: their difference never says too little."""

    name: str
    generation: int
    revision: str
    """SHA-256 of its files: equal for equal adapters on any engine."""
    path: str
    """Where its files lay."""
    rank: int
    """The largest of its parts."""
    targets: tuple[str, ...]
    """PEFT's names of the operations that it adds to."""
    num_bytes: int
    """In memory."""
    loaded_unix_s: float
    slot: int
    """Its number in the kernels."""
    num_begun: int = 0
    """Sequences handed to the step loop; counted by the event loop."""
    num_ended: int = 0
    """Of which have ended; counted by the step loop."""
    is_freed: bool = False
    """Its slot is another's."""

    @property
    def num_running(self) -> int:
        return self.num_begun - self.num_ended

    @property
    def label(self) -> str:
        """What its KV pages are known by."""
        return adapter_label(self.name, self.generation, self.revision)
