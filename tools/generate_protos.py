"""Generate `stagemesh/api` from `protos/`, or check that what is committed is what would be generated.

python tools/generate_protos.py            # write
python tools/generate_protos.py --check    # exit 1 and name the files that differ
"""

from __future__ import annotations

import argparse
import filecmp
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from importlib import resources
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PACKAGE = Path("stagemesh") / "api"


def generate(target: Path) -> None:
    """Write modules, stubs and package markers below `target`."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    well_known = resources.files("grpc_tools") / "_proto"
    scripts = Path(sysconfig.get_path("scripts"))
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
        f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
        f"-I{PROTOS}",
        f"-I{well_known}",
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet,only_async:{target}",
        *sources,
    ]
    subprocess.run(command, check=True, cwd=PROTOS)
    for folder in [target / PACKAGE, *(target / PACKAGE).rglob("*/")]:
        (folder / "__init__.py").touch()
    for grpc_module in (target / PACKAGE).rglob("common_pb2_grpc.py*"):
        grpc_module.unlink()
    for grpc_module in (target / PACKAGE).rglob("events_pb2_grpc.py*"):
        grpc_module.unlink()


def differences(fresh: Path, committed: Path) -> list[str]:
    """Names of files that differ or exist on one side only, relative to the package."""
    names = {
        path.relative_to(base)
        for base in (fresh, committed)
        for path in base.rglob("*")
        if path.is_file() and path.suffix in {".py", ".pyi"}
    }
    return sorted(
        str(name)
        for name in names
        if not (fresh / name).exists()
        or not (committed / name).exists()
        or not filecmp.cmp(fresh / name, committed / name, shallow=False)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh, committed = Path(folder) / PACKAGE, ROOT / PACKAGE
        if arguments.check:
            changed = differences(fresh, committed)
            for name in changed:
                print(f"{PACKAGE / name} differs from protos/: run `make protos`", file=sys.stderr)
            return 1 if changed else 0
        shutil.rmtree(committed, ignore_errors=True)
        shutil.copytree(fresh, committed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
