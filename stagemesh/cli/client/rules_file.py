"""The option `--rules`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

OF_SET = "@"
"""`--anchors /sku=@products` means the stored set `products`, `--rules @invoice` the stored rules `invoice`."""


class RulesFile(click.Path):
    """A file that is there, or `@NAME` for stored rules."""

    def __init__(self) -> None:
        super().__init__(path_type=Path, exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return Path(value) if str(value).startswith(OF_SET) else super().convert(value, param, ctx)
