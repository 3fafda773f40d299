"""Build hook of hatchling: compiles the native kernels while the project is built or installed.

A wheel gets a library for each instruction set and a platform tag, so that whoever installs it needs no compiler. An
editable install gets the one for this machine. Without a compiler, or on a platform that has no kernels, the project
installs all the same: the engine builds them on first use, or computes with PyTorch.
"""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, self.root)  # an isolated build has no project to import from
        from services.engine.kernels.native import build

        editable = version == "editable"
        levels = build.supported_levels()[:1] if editable else build.buildable_levels()
        if not levels:
            return
        try:
            with ThreadPoolExecutor() as pool:
                paths = list(pool.map(build.prebuilt_library, levels))
        except build.KernelsUnavailable as error:
            self.app.display_warning(f"without compiled kernels: {error}")
            return
        if not editable:
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform_tag(paths)}"
            build_data["force_include"] |= {str(path): str(path.relative_to(self.root)) for path in paths}


def platform_tag(libraries: Iterable[Path]) -> str:
    """Of the oldest glibc that has every symbol the libraries use; nothing but glibc is linked dynamically."""
    used = [found for path in libraries for found in re.findall(rb"\0GLIBC_(\d+)\.(\d+)[.\d]*\0", path.read_bytes())]
    platform = re.sub(r"\W", "_", sysconfig.get_platform())
    if not used:
        return platform
    major, minor = max((int(major), int(minor)) for major, minor in used)
    return platform.replace("linux", f"manylinux_{major}_{minor}", 1)
