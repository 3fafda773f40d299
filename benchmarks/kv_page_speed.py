"""What moving stored KV pages costs, on pages of the default model.

python benchmarks/kv_page_speed.py [--tokens 2000] [--busy] [--json]

Milliseconds of one thread's processor time for all pages of that many tokens, the least of five: out of a bfloat16 pool
and into it, headers and checksums, reading from an embedded server in calls of 4 MB, by the Redis client and past it,
and how the host tier packs them. Then the same pages through general compressors,
and as many bytes through other checksums, as far as `zstandard`, `lz4` and `xxhash` are installed: none of them is
needed otherwise. GB are those of the pages as they are, not of the packed ones.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import socket
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from benchmarks.kv_formats import CHUNK, batch
from benchmarks.lock import benchmark_lock, no_lock
from benchmarks.perplexity_texts import texts
from services.engine.block_manager import PAGE_SIZE
from services.engine.kernels.native.library import Decoder, KernelLibrary, load_kernels
from services.engine.kernels.native.page_io import PageIo, checksum
from services.engine.kv.bulk_read import read_values
from services.engine.kv.exponent_packing import ExponentPacking
from services.engine.kv.page_codec import PageCodec, layout_of
from services.engine.kv.page_header import PageName, PageOrigin
from services.engine.kv.store_link import StoreLink
from services.engine.weights.native_weights import load_native
from stagemesh.embedded import valkey
from stagemesh.models.model_config import load_model_config
from stagemesh.models.pull import pull
from stagemesh.models.tokenizer_file import load_tokenizer
from stagemesh.runtime.breaker import BreakerConfig
from stagemesh.runtime.config import read_source
from stagemesh.runtime.kv_keys import page_digests
from stagemesh.runtime.mesh_config import MeshConfig

Bytes = npt.NDArray[np.uint8]
ORIGIN = PageOrigin(tenant_id="", epoch=0, revision="", tokenizer_hash="", precision="", engine_version="")
REPEATS = 5
CALL_BYTES = 4 * 1024 * 1024


def computed(num_tokens: int) -> tuple[Decoder, KernelLibrary, list[int]]:
    """A decoder whose pages hold a text's KV, from page 1 on."""
    files = pull(read_source(environ={}).shared(MeshConfig))
    config, library = load_model_config(files), load_kernels(files.cache_dir / "kernels")
    decoder = load_native(
        files, config, library, num_positions=8192, num_pages=num_tokens // PAGE_SIZE, threads=1, kv_dtype="bfloat16"
    )
    tokens = np.array(load_tokenizer(files).build().encode(next(texts())[1]).ids, np.int32)[:num_tokens]
    for start in range(0, num_tokens, CHUNK):
        decoder.step(batch(tokens, start, min(start + CHUNK, num_tokens)), None)
    return decoder, library, tokens.tolist()


def least_ms(work: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        started_s = time.thread_time()
        work()
        times.append(time.thread_time() - started_s)
    return round(1e3 * min(times), 2)


def names_of(tokens: Sequence[int]) -> list[PageName]:
    digests = list(page_digests(bytes(32), tokens))
    parents = [b"", *digests]
    return [
        PageName(digest, tuple(tokens[index * PAGE_SIZE : (index + 1) * PAGE_SIZE]), parents[index])
        for index, digest in enumerate(digests)
    ]


def moved(decoder: Decoder, library: KernelLibrary, names: Sequence[PageName], format_: str) -> dict[str, object]:
    io, codec = PageIo(decoder), PageCodec(library, ORIGIN, layout_of(decoder.shape, format_))
    numbers = range(1, len(names) + 1)
    payloads = np.empty((len(names), io.page_bytes(format_)), np.uint8)
    room = np.empty(codec.value_bytes, np.uint8)
    found: dict[str, object] = {"mb": round(payloads.nbytes / 1e6, 1)}
    found["export_ms"] = least_ms(lambda: io.export_pages(numbers, format_, payloads))
    found["seal_ms"] = least_ms(lambda: [codec.seal(name, room) for name in names])
    values = [codec.encode(name, payload) for name, payload in zip(names, payloads, strict=True)]
    found["decode_ms"] = least_ms(lambda: [codec.decode(*pair) for pair in zip(names, values, strict=True)])
    found["import_ms"] = least_ms(lambda: io.import_pages(numbers, format_, list(payloads)))
    found |= read(values)
    if format_ == "bfloat16":
        packing = ExponentPacking(library, layout_of(decoder.shape, format_))
        found["host_tier"] = packed(values, packing.pack, packing.unpack)
    found["others"] = {name: packed(payloads, *pair) for name, pair in compressors()}
    return found


def read(values: Sequence[bytes]) -> dict[str, object]:
    """From an embedded server, by redis-py and past it."""
    names, step = [b"%d" % number for number in range(len(values))], CALL_BYTES // len(values[0])
    calls = [names[at : at + step] for at in range(0, len(names), step)]
    with server() as url, redis.Redis.from_url(url, socket_read_size=CALL_BYTES) as client:
        client.mset(dict(zip(names, values, strict=True)))
        found: dict[str, object] = {"read_by_client_ms": least_ms(lambda: each(client.mget, calls))}
        link = StoreLink(url, BreakerConfig())
        with link.within(60) as linked:
            found["read_ms"] = least_ms(lambda: each(partial(read_values, linked), calls))
        link.close()
    return found


@contextmanager
def server() -> Iterator[str]:
    """The URL of an embedded KV Redis of a moment."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        command = valkey.command(Path(folder), port, "-", kind=valkey.Kind.KV)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            url = valkey.url(port, "-")
            try:
                redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.1), 100)).ping()
                yield url
            finally:
                process.terminate()


def packed(pages: Sequence[Any], pack: Callable[[Any], Any], unpack: Callable[[Any], object]) -> dict[str, float]:
    kept = [pack(page) for page in pages]
    num_bytes, gb = sum(len(page) for page in pages), sum(len(page) for page in pages) / 1e6  # per ms
    return {
        "bytes_percent": round(100 * sum(map(num_bytes_of, kept)) / num_bytes, 1),
        "pack_gb_s": round(gb / least_ms(lambda: each(pack, pages)), 2),
        "unpack_gb_s": round(gb / least_ms(lambda: each(unpack, kept)), 2),
    }


def each(work: Callable[[Any], object], pages: Sequence[Any]) -> None:
    """One after the other, so that the memory of one serves the next: the loader takes a few pages at a time."""
    for page in pages:
        work(page)


def num_bytes_of(kept: Any) -> int:
    return sum(map(len, kept)) if isinstance(kept, tuple) else len(kept)


def compressors() -> Iterator[tuple[str, tuple[Callable[[Any], Any], Callable[[Any], object]]]]:
    """As they are, and with the upper and the lower byte of each number apart, the lower ones left alone."""
    found: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {}
    if find_spec("zstandard"):
        zstandard = import_module("zstandard")
        for level in (-5, 1, 3):
            found[f"zstd {level}"] = zstandard.ZstdCompressor(level).compress, zstandard.ZstdDecompressor().decompress
    if find_spec("lz4"):
        block = import_module("lz4.block")
        found["lz4"] = block.compress, block.decompress
    for name, (pack, unpack) in found.items():
        yield name, (lambda page, pack=pack: pack(page.tobytes()), unpack)
        yield (
            f"{name}, upper bytes",
            (
                lambda page, pack=pack: (pack(page[1::2].tobytes()), page[::2].tobytes()),
                lambda kept, unpack=unpack: joined(unpack(kept[0]), kept[1]),
            ),
        )


def joined(upper: bytes, lower: bytes) -> Bytes:
    page = np.empty((len(lower), 2), np.uint8)
    page[:, 0], page[:, 1] = np.frombuffer(lower, np.uint8), np.frombuffer(upper, np.uint8)
    return page


def checksums(library: KernelLibrary) -> dict[str, float]:
    """GB/s over pieces of the size of a page."""
    pieces = [np.random.default_rng(seed).integers(0, 256, 368_640, dtype=np.uint8) for seed in range(100)]
    functions: dict[str, Callable[[Any], object]] = {
        "four CRC-32C (used)": lambda piece: checksum(library, piece),
        "zlib.crc32": zlib.crc32,
        "blake2b": lambda piece: hashlib.blake2b(piece).digest(),
        "sha256": lambda piece: hashlib.sha256(piece).digest(),
    }
    if find_spec("xxhash"):
        functions["xxh3_128"] = import_module("xxhash").xxh3_128_digest
    gb = sum(map(len, pieces)) / 1e6  # per ms
    return {
        name: round(gb / least_ms(lambda run=run: [run(piece) for piece in pieces]), 1)
        for name, run in functions.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--busy", action="store_true", help="do not wait for other benchmarks")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with no_lock() if arguments.busy else benchmark_lock():
        decoder, library, tokens = computed(arguments.tokens)
        names = names_of(tokens)
        report = {format_: moved(decoder, library, names, format_) for format_ in PageIo(decoder).formats}
        report["checksum_gb_s"] = checksums(library)
    print(json.dumps(report, indent=None if arguments.json else 2))


if __name__ == "__main__":
    main()
