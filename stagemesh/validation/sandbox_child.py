"""The inside of the sandbox: answers requests on stdin until stdin ends. Nothing in here may import gRPC.

A frame is u32 little endian length, then JSON. A request is `{"call": NAME, "timeout_s": T, "argument": …}`, an answer
`{"result": …}`, `{"refusal": {…}}` or `{"fault": TRACEBACK}`.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import struct
import traceback
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from stagemesh.validation.refusal import Refusal

Handlers = Mapping[str, Callable[[Any], Any]]
HEADER = struct.Struct("<I")


def serve(handlers: Handlers, memory_bytes: int) -> None:
    """Answer until the parent closes the pipe, dies, or a limit ends this process."""
    requests, answers = _take_pipes()
    _limit(memory_bytes)
    write(answers, {"result": "ready"})
    while (request := read(requests)) is not None:
        _allow_cpu_s(request["timeout_s"])
        write(answers, _answer(handlers[request["call"]], request["argument"]))


def read(stream: BinaryIO) -> Any:
    """The next frame; None at the end."""
    header = stream.read(HEADER.size)
    return json.loads(stream.read(HEADER.unpack(header)[0])) if len(header) == HEADER.size else None


def write(stream: BinaryIO, frame: Any) -> None:
    stream.write(encode(frame))
    stream.flush()


def encode(frame: Any) -> bytes:
    data = json.dumps(frame, ensure_ascii=False).encode()
    return HEADER.pack(len(data)) + data


def _answer(handler: Callable[[Any], Any], argument: Any) -> dict[str, Any]:
    try:
        return {"result": handler(argument)}
    except Refusal as refusal:
        return {"refusal": {"reason": refusal.reason, "message": refusal.message, "field": refusal.field}}
    except MemoryError:
        os._exit(1)  # what is left of this process cannot be trusted; the parent starts another
    except Exception:  # noqa: BLE001  the boundary: the parent logs it
        return {"fault": traceback.format_exc()[-4_000:]}


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the parent, moved away from 0 and 1, to which native libraries may print."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
    return requests, answers


def _limit(memory_bytes: int) -> None:
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, memory_bytes)]
    for which, limit in limits:
        with contextlib.suppress(OSError, ValueError):  # macOS refuses some of them; the parent's clock still holds
            resource.setrlimit(which, (limit, limit))


def _allow_cpu_s(seconds: float) -> None:
    """Let the kernel end this process if it computes on although its parent is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime + seconds) + 2
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.getrlimit(resource.RLIMIT_CPU)[1]))
