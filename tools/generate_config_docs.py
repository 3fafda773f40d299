"""Write `deploy/stagemesh.example.yaml` and `docs/configuration.md` from the configuration models, or check them.

python tools/generate_config_docs.py            # write
python tools/generate_config_docs.py --check    # exit 1 and name the files that differ
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from stagemesh.runtime.config import SECTIONS
from stagemesh.runtime.mesh_config import MeshConfig

ROOT = Path(__file__).resolve().parent.parent

EXAMPLE_HEAD = """\
# Every key of stagemesh.yaml with its default. Copy the keys that you change; the rest can be left out.
# Each can also be set in the environment: STAGEMESH_ and the path in capitals, joined by two underscores, e.g.
# STAGEMESH_ENGINE__MAX_RUNNING=8. The environment wins. Values there are read as YAML.
# Generated from the configuration models by `make docs`.
"""

DOCS_HEAD = """\
# Configuration

One file, `stagemesh.yaml`, named by `stagemesh up --config FILE` or `STAGEMESH_CONFIG`. Every key can be overridden by
an environment variable: `STAGEMESH_` and the path of the key in capitals, joined by two underscores
(`STAGEMESH_ENGINE__MAX_RUNNING=8`; values are read as YAML). Precedence: environment, file, default. A bad value stops
the start with the file's line or the variable's name in the message. Keys are read at start; a change needs a restart.

`stagemesh up` chooses the internal `addresses` and the mesh token itself; both matter where services are started by
other means, as in `deploy/compose.yaml`. Not keys of the file: `STAGEMESH_CONFIG`, `STAGEMESH_STATE` (state folder),
`STAGEMESH_INSTANCE` (name of a process), `STAGEMESH_API_KEY` (the command's key).

```yaml
models:                                                      # beside the default one
  small: {source: "hf:HuggingFaceTB/SmolLM2-135M-Instruct"}  # `stagemesh model pull small` fetches it
  mine: {source: /srv/models/mine.gguf, sampling: {temperature: 0.7, top_p: 0.9}}
aliases: {gpt-4o-mini: small}                                # another name under which callers ask for it
serve: {smollm2-135m-instruct: 2, small: 1}                  # engines per model
shadow: {candidate: mine}                                    # answers a copy of the traffic: `stagemesh shadow report`
engine: {max_running: 16}                                    # for all engines
```

A model's `source` is `builtin`, `hf:ORG/NAME`, a folder in Hugging Face layout or a `.gguf` file (a relative path
counts from the folder in which the command is given); `revision` is a branch, tag or commit of the hub; `sampling`
holds what requests get that do not say otherwise: `temperature`, `top_p`, `top_k`, `min_p`, `repetition_penalty`.

`prefill_chunk_size` is also understood at the top level, where it means `engine.prefill_chunk_size`.

This page and `deploy/stagemesh.example.yaml` are generated from the configuration models by `make docs`.
"""


@dataclass(frozen=True)
class Key:
    """One key of the file."""

    path: tuple[str, ...]
    default: Any
    """As plain YAML data."""
    text: str
    limits: str

    @property
    def variable(self) -> str:
        return "STAGEMESH_" + "__".join(self.path).upper()


def section_model(name: str) -> type[BaseModel]:
    """The model of a section: a service's own, or the supervisor's."""
    module = "stagemesh.cli.supervisor.settings" if name == "supervisor" else f"services.{name}.config"
    model: type[BaseModel] = getattr(importlib.import_module(module), f"{name.capitalize()}Config")
    return model


def keys_of(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[Key]:
    """All keys of a model, those of nested models one by one."""
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        if isinstance(default, BaseModel):
            yield from keys_of(type(default), (*prefix, name))
        else:
            yield Key((*prefix, name), plain(default), " ".join((field.description or "").split()), limits(field))


def plain(value: Any) -> Any:
    """The value as YAML would hold it."""
    if isinstance(value, BaseModel):
        return {name: plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return str(value) if isinstance(value, Path) else value


def limits(field: FieldInfo) -> str:
    """`≥ 1, ≤ 64`, or what there is to choose from."""
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(f"`{choice}`" for choice in get_args(field.annotation))
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [
        f"{sign} {getattr(constraint, name):g}"
        for constraint in field.metadata
        for name, sign in signs.items()
        if getattr(constraint, name, None) is not None
    ]
    return ", ".join(found)


def inline(value: Any) -> str:
    """The value on one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def example() -> str:
    """All keys with comments, as a file that can be used as it is."""
    parts = [EXAMPLE_HEAD, "".join(example_lines(list(keys_of(MeshConfig)), 0))]
    parts += [
        f"{name}:\n" + "".join(example_lines(list(keys_of(section_model(name), (name,))), 1)) for name in SECTIONS
    ]
    return "\n".join(parts)


def example_lines(keys: list[Key], depth: int) -> Iterator[str]:
    """The keys below one level of the tree."""
    groups: dict[str, list[Key]] = {}
    for key in keys:
        groups.setdefault(key.path[depth], []).append(key)
    for name, members in groups.items():
        indent = "  " * depth
        if len(members[0].path) > depth + 1:
            yield f"{indent}{name}:\n"
            yield from example_lines(members, depth + 1)
            continue
        (key,) = members
        if key.text or key.limits:
            yield f"{indent}# {key.text}{f' [{key.limits}]' if key.limits else ''}\n".replace("#  [", "# [")
        yield f"{indent}{name}: {inline(key.default)}\n"


def docs() -> str:
    """A table for each section."""
    parts = [DOCS_HEAD, table("Shared by all services", keys_of(MeshConfig))]
    return "\n".join(
        [*parts, *(table(f"Section `{name}`", keys_of(section_model(name), (name,))) for name in SECTIONS)]
    )


def table(title: str, keys: Iterator[Key]) -> str:
    rows = [
        f"| `{'.'.join(key.path)}` | `{cell(inline(key.default))}` | {cell(key.text)}"
        f"{f' ({key.limits})' if key.limits else ''} |"
        for key in keys
    ]
    return "\n".join([f"## {title}", "", "| key | default | meaning |", "|---|---|---|", *rows, ""])


def cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    wanted = {ROOT / "deploy" / "stagemesh.example.yaml": example(), ROOT / "docs" / "configuration.md": docs()}
    changed = [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in changed:
        if check:
            print(f"{path.relative_to(ROOT)} differs from the configuration models: run `make docs`", file=sys.stderr)
        else:
            path.write_text(wanted[path], encoding="utf-8")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
