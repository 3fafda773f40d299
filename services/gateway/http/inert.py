"""OpenAI's parameters that do nothing here: accepted with values that ask for nothing, else refused by name."""

from __future__ import annotations

from collections.abc import Mapping

from services.gateway.http.fields import Fields

ANY = object()
"""Any value does nothing here or there."""

CHAT: Mapping[str, tuple[object, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "store": (False,),
    "metadata": (ANY,),
    "service_tier": ("auto", "default"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "web_search_options": (),
    "reasoning_effort": ("none",),
    "verbosity": ("medium",),
    "prompt_cache_key": (),
    "prompt_cache_retention": (),
}

COMPLETION: Mapping[str, tuple[object, ...]] = {"echo": (False,), "suffix": ("",)}


def refuse_effects(fields: Fields, inert: Mapping[str, tuple[object, ...]]) -> None:
    """Raises InvalidRequest that names a parameter which asks for something that is not there."""
    for name, harmless in inert.items():
        value = fields.take(name)
        # Types are compared too: 0 == False in Python, and 0 is not false in JSON.
        if value is None or ANY in harmless or any(type(value) is type(it) and value == it for it in harmless):
            continue
        fields.refuse(name, "is not supported here; leave it out", "UNSUPPORTED_PARAMETER")
