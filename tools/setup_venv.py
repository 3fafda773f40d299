"""Make `.venv` and install the project with one of its extras, unless that is done already.

python3 tools/setup_venv.py mesh      what `make run` needs
python3 tools/setup_venv.py dev       tests and checks as well (contains `mesh`)

`mesh` comes without PyTorch where the engine's native kernels run: they are compiled during the installation. Needs the
standard library alone. A stamp remembers what was installed, so that a second call neither takes time nor
needs a network.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
from collections import deque
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
CONTAINED = {"mesh": ("mesh", "dev"), "dev": ("dev",)}
"""Extra → stamps of which one is enough."""

INPUTS = ("pyproject.toml", "constraints.txt")
MIN_VERSION = (3, 11)


def fingerprint() -> str:
    """Changes with the interpreter, the place of the checkout and all that pip would install."""
    parts = [sys.version, str(ROOT), *((ROOT / name).read_text(encoding="utf-8") for name in INPUTS)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def stamp(extra: str) -> Path:
    return VENV / f"installed-{extra}"


def is_installed(extra: str) -> bool:
    current = fingerprint()
    return any(
        stamp(name).is_file() and stamp(name).read_text(encoding="utf-8") == current for name in CONTAINED[extra]
    )


def pip(*arguments: str) -> None:
    """Run the environment's pip; shows what is downloaded, and pip's own words only when it fails."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar", "off", "-c", str(ROOT / "constraints.txt"), *arguments]
    last_lines: deque[str] = deque(maxlen=30)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            last_lines.append(line)
            if tells_progress(line.strip()):
                say("  " + line.strip()[:100])
    if process.returncode:
        sys.stderr.writelines(last_lines)
        raise SystemExit(
            "setup: pip could not install what is needed; its message stands above. "
            "A first installation needs a network, later ones do not."
        )


def tells_progress(line: str) -> bool:
    """Whether a line of pip says how far it is: a larger download, or the installation at the end."""
    return (line.startswith("Downloading") and " MB" in line) or line.startswith("Installing collected")


def described() -> dict[str, Any]:
    """What pyproject.toml says."""
    import tomllib  # after the check of the version that brought it

    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def build_requirements() -> list[str]:
    """What builds the project; installed beforehand, so that no isolated build asks the network for it."""
    return [*described()["build-system"]["requires"], "editables"]


def dependencies(extras: str) -> list[str]:
    """What the project needs with these extras; its own extras within them are followed."""
    project = described()["project"]
    found, ahead, seen = list(project["dependencies"]), extras.split(","), set()
    while ahead:
        extra = ahead.pop()
        if extra in seen:
            continue
        seen.add(extra)
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(rf"{project['name']}\[([\w,-]+)\]", requirement)
            if own:
                ahead += own[1].split(",")
            else:
                found.append(requirement)
    return found


def is_made_by_this_python() -> bool:
    """Whether `.venv` is there and has this interpreter's version."""
    name = f"python{sysconfig.get_python_version()}"
    return (VENV / "bin" / name).exists()


def why_no_kernels() -> str:
    """Why the native kernels cannot be built or run on this machine; empty where they can."""
    sys.path.insert(0, str(ROOT))
    from services.engine.kernels.native import build  # standard library only

    levels = build.supported_levels()
    if not levels:
        return "this processor or system has no native kernels"
    if build.found_library(levels[0]) is None and build.find_compiler() is None:
        return "there is no C++ compiler for the native kernels"
    return ""


def install(extra: str) -> None:
    if not is_made_by_this_python():
        say("making .venv")
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    extras = extra
    if extra == "mesh" and (reason := why_no_kernels()):
        extras = "mesh,torch"
        say(f"{reason}: PyTorch is installed as well and computes instead, several times slower")
    say(f"installing the pinned dependencies of stagemesh[{extras}] (minutes the first time) …")
    pip(*build_requirements())
    pip(*dependencies(extras))  # those without a wheel build with what each of them names
    pip("--no-build-isolation", "--editable", f".[{extras}]")
    stamp(extra).write_text(fingerprint(), encoding="utf-8")
    say("installed")


def say(text: str) -> None:
    print(f"setup: {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("extra", choices=sorted(CONTAINED))
    extra = parser.parse_args().extra
    if sys.version_info < MIN_VERSION:
        raise SystemExit(
            f"setup: Python {'.'.join(map(str, MIN_VERSION))} or newer is needed, this is "
            f"{sysconfig.get_python_version()}; name another one with `make PYTHON=python3.12 …`"
        )
    descriptor = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # two calls at once would break the environment
    if not is_installed(extra):
        install(extra)


if __name__ == "__main__":
    main()
