"""Small models and servers for the tests of `stagemesh.models`."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import gguf
import numpy as np

TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "a", "b", "ab", "Ġ", "c"]


def write_gguf(path: Path, *, architecture: str = "llama", pre: str = "smollm", **metadata: Any) -> Path:
    """A llama of one layer with random weights. `metadata`: uint32 values by key, `__` for `.`."""
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(TOKENS)
    writer.add_token_types([3, 3, 3, 1, 1, 1, 1, 1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    for key, value in metadata.items():
        writer.add_uint32(key.replace("__", "."), value)
    random = np.random.default_rng(1)
    writer.add_tensor("token_embd.weight", random.standard_normal((len(TOKENS), 32)).astype(np.float32))
    quantized = gguf.quantize(random.standard_normal((32, 32)).astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("blk.0.attn_q.weight", quantized, raw_dtype=gguf.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_hf(folder: Path, **config: Any) -> Path:
    """A folder in Hugging Face layout, with an empty weight file of sound form."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "model_type": "qwen3",
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 64,
        "vocab_size": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000.0,
        "tie_word_embeddings": True,
        "eos_token_id": 2,
        **config,
    }
    (folder / "config.json").write_text(json.dumps(values))
    header = json.dumps({"model.norm.weight": {"dtype": "F32", "shape": [32], "data_offsets": [0, 128]}}).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(128))
    (folder / "tokenizer.json").write_text(json.dumps(TOKENIZER_JSON))
    return folder


TOKENIZER_JSON: dict[str, Any] = {
    "version": "1.0",
    "added_tokens": [
        {
            "id": token_id,
            "content": text,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": special,
        }
        for token_id, text, special in ((0, "<s>", True), (2, "</s>", True), (7, "<think>", False))
    ],
    "normalizer": None,
    "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "post_processor": None,
    "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
    "model": {"type": "BPE", "vocab": {"a": 3, "b": 4, "ab": 5}, "merges": ["a b"]},
}

Reply = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def http_server(replies: Mapping[str, Reply]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A server on loopback: its base URL, and a growing list of (path, Range header) of what was asked."""
    asked: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append((self.path, self.headers.get("Range", "")))
            reply = replies.get(self.path.partition("?")[0])
            if reply is None:
                self.send_error(404)
            else:
                reply(self)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, body: bytes, content_type: str = "text/html", **headers: str) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(body)


def send_range(handler: BaseHTTPRequestHandler, body: bytes, *, break_after: int | None = None) -> None:
    """`body` from the asked offset on; the connection is cut after `break_after` bytes."""
    begin = int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
    if begin >= len(body):
        handler.send_response(416)
        handler.send_header("Content-Range", f"bytes */{len(body)}")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return
    handler.send_response(206 if begin else 200)
    handler.send_header("Content-Length", str(len(body) - begin))
    if begin:
        handler.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
    handler.end_headers()
    end = len(body) if break_after is None else min(len(body), begin + break_after)
    handler.wfile.write(body[begin:end])
    if end < len(body):
        handler.wfile.flush()
        handler.close_connection = True
        handler.connection.close()
