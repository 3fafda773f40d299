"""Which engine a request goes to that asks for a precision mode."""

from __future__ import annotations

import pytest

from services.gateway.engine_link import EngineLink
from services.gateway.engines import ANY_MODE, Engines
from stagemesh.api.common.v1 import common_pb2
from stagemesh.api.common.v1.common_pb2 import PRECISION_MODE_PRECISE, PRECISION_MODE_STANDARD, PRECISION_MODE_TURBO
from stagemesh.api.engine.v1 import engine_pb2
from stagemesh.runtime.errors import Precondition
