"""Stagemesh: an LLM serving mesh of separate gRPC stage services."""

__version__ = "0.1.0"
