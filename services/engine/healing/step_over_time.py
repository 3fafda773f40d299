"""A step that took too long."""


class StepOverTime(Exception):
    """It was broken off; its KV may be in part."""
