"""Logging, configured once per process: one JSON object a line on stderr (or key=value on a terminal)."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

from stagemesh.runtime import context


def _add_context(_logger: Any, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    for name, variable in (
        ("request_id", context.request_id),
        ("tenant_id", context.tenant_id),
        ("traceparent", context.traceparent),
    ):
        if value := variable.get():
            event.setdefault(name, value)
    return event


def configure_logging(*, instance: str, level: str = "INFO") -> None:
    """Route structlog and the standard library's loggers to stderr, each line with time, level and instance."""
    terminal = sys.stderr.isatty()
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        _add_context,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(ensure_ascii=False)
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    structlog.contextvars.bind_contextvars(instance=instance)


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A logger; events are short lower-case phrases with key-value pairs."""
    logger: structlog.stdlib.BoundLogger = structlog.stdlib.get_logger(name)
    return logger
