"""The directory of stored KV pages: what lies in the KV Redis, for how long, and what goes when room is needed.

Engines `publish` what they have stored; the cache service looks up, pins, forgets and counts (`KvDirectory`). Every
change is one Lua script, so that budgets and counters hold whoever works at once.
"""

from __future__ import annotations

from stagemesh.runtime.kv_directory.directory import Found, KvDirectory
from stagemesh.runtime.kv_directory.layout import Holder, holder_tag
from stagemesh.runtime.kv_directory.limits import KvLimits
from stagemesh.runtime.kv_directory.publish import Published, PublishedPage, publish
from stagemesh.runtime.kv_directory.stats import SpaceStats

__all__ = [
    "Found",
    "Holder",
    "KvDirectory",
    "KvLimits",
    "Published",
    "PublishedPage",
    "SpaceStats",
    "holder_tag",
    "publish",
]
