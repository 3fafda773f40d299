"""Continue a stored conversation on its stored tokens instead of encoding it again.

What the model said was produced as certain tokens; encoding its text anew may give others, and then no cached page
of the conversation fits any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from services.tokenizer.loaded_model import LoadedModel
from services.tokenizer.special_tokens import Piece, choose_mark


def splice(model: LoadedModel, pieces: Sequence[Piece], stored_ids: Sequence[int]) -> tuple[list[int], int]:
    """The token IDs of the prompt, and how many of them were taken from `stored_ids`.

    They are taken when their text, special tokens included, is how the prompt begins; otherwise all is encoded.
    """
    rest = _after_stored(model, pieces, stored_ids) if stored_ids else None
    if rest is None:
        return model.encode_pieces(pieces), 0
    return [*stored_ids, *model.encode_pieces(rest)], len(stored_ids)


def _after_stored(model: LoadedModel, pieces: Sequence[Piece], stored_ids: Sequence[int]) -> list[Piece] | None:
    if max(stored_ids) >= len(model.file.all_token_bytes):
        return None  # stored under another vocabulary
    stored = _pieces_of(model, stored_ids)
    # A special token and a caller's text that reads like it must not be taken for each other.
    mark = choose_mark(piece.text for piece in (*pieces, *stored))
    begin, prompt = _join(stored, mark), _join(pieces, mark)
    if not prompt.startswith(begin):
        return None
    return _cut(pieces, len(begin))


def _pieces_of(model: LoadedModel, token_ids: Sequence[int]) -> list[Piece]:
    special = model.file.special_ids
    pieces: list[Piece] = []
    for is_special, group in groupby(token_ids, key=special.__contains__):
        ids = list(group)
        if is_special:
            pieces.extend(Piece(model.decode([token_id], keep_special=True), token_id) for token_id in ids)
        else:
            pieces.append(Piece(model.decode(ids, keep_special=True)))
    return pieces


def _join(pieces: Iterable[Piece], mark: str) -> str:
    return "".join(piece.text if piece.special_id is None else _marked(piece.text, mark) for piece in pieces)


def _marked(text: str, mark: str) -> str:
    return f"{mark}{text}{mark}"


def _cut(pieces: Sequence[Piece], num_chars: int) -> list[Piece]:
    """The pieces behind the first `num_chars` characters of their joined form."""
    rest: list[Piece] = []
    for piece in pieces:
        length = len(piece.text) + (0 if piece.special_id is None else 2)
        if num_chars >= length:
            num_chars -= length
        elif num_chars > 0:
            rest.append(Piece(piece.text[num_chars:]))  # joined forms agree, so this is ordinary text
            num_chars = 0
        else:
            rest.append(piece)
    return rest
