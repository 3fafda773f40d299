"""Where the user's pip gets packages from, and where one wheel lies there.

Only pip's own configuration counts (files and `PIP_…` variables): index, extra indexes, links, certificate, proxy.
"""

from __future__ import annotations

import ast
import html
import importlib
import os
import re
import ssl
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import url2pathname

import httpx

from stagemesh.models.errors import PullError

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{SIMPLE_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
MAX_PAGE_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class IndexConfig:
    """pip's settings that matter for finding and fetching one file."""

    index_urls: tuple[str, ...]
    """The index and the extra indexes, in that order; `file:` URLs are possible."""
    find_links: tuple[str, ...]
    """Folders, or pages with links."""
    cert: str = ""
    """File with certificate authorities; empty for the default ones."""
    proxy: str = ""


def read_index_config() -> IndexConfig:
    """Ask pip for its configuration (half a second). Raises PullError when there is no pip in this environment."""
    output = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONUTF8": "1"},
    )
    if output.returncode != 0:
        raise PullError(f"pip's configuration cannot be read: {output.stderr.strip() or output.stdout.strip()}")
    values = parse_config_list(output.stdout)
    index_url = values.get("index-url") or default_index_url()
    no_index = values.get("no-index", "").lower() in {"1", "true", "yes", "on"}
    return IndexConfig(
        index_urls=() if no_index else (index_url, *values.get("extra-index-url", "").split()),
        find_links=tuple(values.get("find-links", "").split()),
        cert=values.get("cert", ""),
        proxy=values.get("proxy", ""),
    )


def parse_config_list(text: str) -> dict[str, str]:
    """Options of `pip config list` by name: environment over `download.` over `global.`."""
    ranks = {"global": 0, "download": 1, ":env:": 2}
    found: dict[str, tuple[int, str]] = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in ranks and ranks[section] >= found.get(name, (0, ""))[0]:
            found[name] = (ranks[section], str(ast.literal_eval(value)))
    return {name: value for name, (_, value) in found.items()}


def default_index_url() -> str:
    """The index that pip itself uses when none is configured."""
    try:
        return str(importlib.import_module("pip._internal.models.index").PyPI.simple_url)
    except (ImportError, AttributeError):
        raise PullError("pip does not say which index it uses; set PIP_INDEX_URL") from None


def open_client(config: IndexConfig) -> httpx.Client:
    """An HTTP client with pip's certificate and proxy, and bounded waits."""
    return httpx.Client(
        verify=ssl.create_default_context(cafile=config.cert) if config.cert else True,
        proxy=config.proxy or None,
        follow_redirects=True,
        timeout=httpx.Timeout(30.0, connect=15.0),
        headers={"User-Agent": "stagemesh"},
    )


def find_wheel(client: httpx.Client, config: IndexConfig, project: str, filename: str) -> list[str]:
    """URLs of `filename`, the most preferred first; `file:` for local ones.

    Raises PullError, with what each place said, when none has it.
    """
    urls: list[str] = []
    problems: list[str] = []
    places = [*config.find_links, *(f"{url.rstrip('/')}/{project}/" for url in config.index_urls)]
    for place in places:
        try:
            urls.extend(_links(client, place, filename))
        except httpx.HTTPStatusError as error:
            problems.append(f"{_without_secrets(place)}: status {error.response.status_code}")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            problems.append(f"{_without_secrets(place)}: {error or type(error).__name__}")
    if not urls:
        reasons = "; ".join(problems) or "no place that pip is configured with has it"
        raise PullError(f"{filename} was not found: {reasons}")
    return urls


def _links(client: httpx.Client, place: str, filename: str) -> list[str]:
    folder = local_path(place)
    if folder is not None:
        if (folder / filename).is_file():
            return [(folder / filename).resolve().as_uri()]
        page = folder / "index.html" if folder.is_dir() else folder
        return _html_links(page.read_text("utf-8"), page.as_uri(), filename) if page.is_file() else []
    response = client.get(place, headers={"Accept": ACCEPT})
    if response.status_code == 404:
        return []
    response.raise_for_status()
    if len(response.content) > MAX_PAGE_BYTES:
        raise ValueError(f"a page of {len(response.content)} bytes")
    if response.headers.get("content-type", "").startswith(SIMPLE_JSON):
        files = response.json()["files"]
        return [urljoin(str(response.url), file["url"]) for file in files if file["filename"] == filename]
    return _html_links(response.text, str(response.url), filename)


def _html_links(page: str, base: str, filename: str) -> list[str]:
    links = [html.unescape(link).partition("#")[0] for link in re.findall(r"""href=["']([^"']+)["']""", page)]
    return [urljoin(base, link) for link in links if unquote(urlsplit(link).path).rpartition("/")[2] == filename]


def local_path(place: str) -> Path | None:
    """The path behind a `file:` URL or a plain path; None for other URLs."""
    if place.startswith("file:"):
        return Path(url2pathname(urlsplit(place).path))
    return None if "://" in place else Path(place).expanduser()


def _without_secrets(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//…@", url)
