"""What text is taken at all."""

from __future__ import annotations

from collections.abc import Iterable

from stagemesh.runtime.errors import InvalidRequest


def utf8_length(text: str, field: str) -> int:
    """Bytes in UTF-8. Raises InvalidRequest INVALID_TEXT for lone surrogates, which no encoder takes."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise InvalidRequest(
            "INVALID_TEXT", f"character {error.start} is half of a surrogate pair; send valid Unicode", field=field
        ) from None


def check_text(texts: Iterable[str], max_bytes: int, field: str) -> int:
    """The bytes of all texts together. Raises InvalidRequest INVALID_TEXT or PROMPT_TOO_LARGE."""
    total = 0
    for text in texts:
        total += utf8_length(text, field)
        if total > max_bytes:
            raise InvalidRequest(
                "PROMPT_TOO_LARGE", f"the text exceeds the limit of {max_bytes} bytes; send less", field=field
            )
    return total
