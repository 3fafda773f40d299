"""The disposable process in which constraints are tried out before the engine builds them.

`python -m services.engine.grammar_trial MEMORY_BYTES TOKENIZER_JSON VOCAB_SIZE EOS_IDS LEXER_STATES SYMBOLS`, the EOS
tokens with commas between them. Its one call, `build {constraint}`, gives how much memory building took, in bytes.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import Any

from services.engine.grammar_builder import GrammarBuilder, GrammarLimits
from stagemesh.validation.data import constraint_from
from stagemesh.validation.sandbox_child import Handlers, serve

NICENESS = 10
"""Steps of the model come first."""


def arguments_of(builder_json: str, vocab_size: int, eos: tuple[int, ...], limits: GrammarLimits) -> tuple[str, ...]:
    """What `main` takes after the bound of its memory."""
    eos_ids = ",".join(map(str, eos))
    return builder_json, str(vocab_size), eos_ids, str(limits.max_lexer_states), str(limits.max_grammar_symbols)


def handlers(builder: GrammarBuilder) -> Handlers:
    def build(data: dict[str, Any]) -> int:
        before = _peak_bytes()
        builder.build(constraint_from(data))
        return _peak_bytes() - before

    return {"build": build}


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def main(arguments: list[str]) -> None:
    memory_bytes, tokenizer_json, vocab_size, eos_ids, lexer_states, symbols = arguments
    os.nice(NICENESS)
    builder = GrammarBuilder(
        tokenizer_json,
        int(vocab_size),
        [int(token) for token in eos_ids.split(",") if token],
        GrammarLimits(max_lexer_states=int(lexer_states), max_grammar_symbols=int(symbols)),
    )
    serve(handlers(builder), int(memory_bytes))


if __name__ == "__main__":
    main(sys.argv[1:])
