"""Faults on purpose: what may go wrong in a stage, where it is asked for, and how it comes about.

Off unless somebody asks: by the configuration (`faults`), by a header of a request that comes from this machine
(`x-stagemesh-fault`), or at run time (`stagemesh chaos`). A mesh whose `environment` is `production` refuses all three.
"""

from stagemesh.runtime.faults.board import Board, board
from stagemesh.runtime.faults.fault import ENGINE_STAGES, STAGES, Fault, InjectedFault, Kind, kinds_of
from stagemesh.runtime.faults.header import HEADER, parse_faults, write_faults
from stagemesh.runtime.faults.request_faults import RequestFaults, at_stage, outgoing, request_faults
from stagemesh.runtime.faults.strike import strike, strike_sync

__all__ = [
    "ENGINE_STAGES",
    "HEADER",
    "STAGES",
    "Board",
    "Fault",
    "InjectedFault",
    "Kind",
    "RequestFaults",
    "at_stage",
    "board",
    "kinds_of",
    "outgoing",
    "parse_faults",
    "request_faults",
    "strike",
    "strike_sync",
    "write_faults",
]
