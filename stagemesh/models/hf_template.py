"""Where a folder in Hugging Face layout keeps its chat template."""

from __future__ import annotations

from pathlib import Path

from stagemesh.models.errors import ModelCorrupt
from stagemesh.models.model_config import read_json


def read_template(folder: Path) -> str:
    """The template's text: `chat_template.jinja`, else from `tokenizer_config.json`; empty if there is none."""
    own_file = folder / "chat_template.jinja"
    if own_file.is_file():
        try:
            return own_file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ModelCorrupt(f"{own_file} cannot be read: {error}") from None
    config_path = folder / "tokenizer_config.json"
    template = read_json(config_path).get("chat_template") if config_path.is_file() else None
    if isinstance(template, list):  # several templates by name
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else ""
