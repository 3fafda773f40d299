"""Compare `protos/` with the last landed state and name what would break peers of the previous release.

The landed state is `origin/main` where git has it, else the first parent of HEAD.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CANDIDATES = ("origin/main", "HEAD^")


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def landed_commit() -> str | None:
    """The commit to compare with; None where git has none that holds protos."""
    for name in CANDIDATES:
        if git("cat-file", "-e", f"{name}:protos/buf.yaml").returncode == 0:
            return name
    return None


def main() -> int:
    commit = landed_commit()
    if commit is None:
        print("buf breaking: no earlier state of protos/ to compare with")
        return 0
    buf = Path(sys.executable).with_name("buf")
    with tempfile.TemporaryDirectory() as folder:
        archive = git("archive", commit, "protos")
        subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
        result = subprocess.run(
            [str(buf), "breaking", "--against", f"{folder}/protos"], cwd=ROOT / "protos", check=False
        )
    print(f"buf breaking against {commit}: {'compatible' if result.returncode == 0 else 'see above'}")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
