"""The printable stand-ins for bytes in byte-level BPE vocabularies (GPT-2's alphabet)."""

from __future__ import annotations


def _alphabet() -> dict[str, int]:
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


BYTE_OF_CHAR: dict[str, int] = _alphabet()
CHAR_OF_BYTE: dict[int, str] = {byte: char for char, byte in BYTE_OF_CHAR.items()}


def bytes_of_token(text: str) -> bytes:
    """The bytes that a byte-level token stands for; a token with any other character stands for itself in UTF-8."""
    try:
        return bytes([BYTE_OF_CHAR[char] for char in text])
    except KeyError:
        return text.encode("utf-8", "surrogatepass")
