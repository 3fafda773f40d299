"""Files that options name: bounded, UTF-8, with errors that name the option."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

MAX_FILE_BYTES = 16 * 1024 * 1024


def read_input(source: str) -> str:
    """The text of a file, or of standard input for `-`. Raises click.BadParameter."""
    if source != "-":
        return read_text(Path(source), "FILE")
    try:
        text = sys.stdin.buffer.read(MAX_FILE_BYTES + 1).decode()
    except UnicodeDecodeError as error:
        raise click.BadParameter(f"standard input is not UTF-8: {error}", param_hint="-") from None
    if len(text) > MAX_FILE_BYTES:
        raise click.BadParameter(f"standard input is larger than {MAX_FILE_BYTES >> 20} MiB", param_hint="-")
    return text


def read_text(path: Path, option: str) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise click.BadParameter(f"{path} is larger than {MAX_FILE_BYTES >> 20} MiB", param_hint=option)
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{path} cannot be read: {error}", param_hint=option) from None


def parse_json(text: str, path: Path, option: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint=option) from None
    except RecursionError:
        raise click.BadParameter(f"{path} is nested too deeply", param_hint=option) from None
    return value
