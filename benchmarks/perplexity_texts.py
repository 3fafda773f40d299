"""Texts of different kinds that a machine with this repository and Python has anyway; none is kept here."""

from __future__ import annotations

import asyncio.base_events
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from pydoc_data import topics

ROOT = Path(__file__).resolve().parent.parent
STANDARD_LIBRARY = Path(sysconfig.get_paths()["stdlib"])
SCHEMAS = ROOT.parent / "shared" / "data" / "json-schema-test-suite" / "tests" / "draft2020-12"
MAX_CHARACTERS = 60_000


def texts() -> Iterator[tuple[str, str]]:
    """Name and text; of what is not on this machine, a sentence on stderr instead."""
    for name, read in TEXTS.items():
        try:
            text = read()
        except OSError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
        else:
            yield name, text[:MAX_CHARACTERS]


def _joined(folder: Path, pattern: str) -> str:
    paths = sorted(folder.glob(pattern))
    if not paths:
        raise FileNotFoundError(f"there is no {folder / pattern}")
    return "\n\n".join(path.read_text(encoding="utf-8") for path in paths)


TEXTS: Mapping[str, Callable[[], str]] = {
    "reference manual": lambda: "\n\n".join(topics.topics[name] for name in sorted(topics.topics)),
    "licence": lambda: (STANDARD_LIBRARY / "LICENSE.txt").read_text(encoding="utf-8"),
    "Python code": lambda: Path(asyncio.base_events.__file__).read_text(encoding="utf-8"),
    "change log": lambda: (STANDARD_LIBRARY / "idlelib" / "NEWS.txt").read_text(encoding="utf-8"),
    "decisions": lambda: _joined(ROOT / "docs" / "decisions", "000*.md"),
    "JSON": lambda: _joined(SCHEMAS, "*.json"),
}
