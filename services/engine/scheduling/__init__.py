"""Policies of the scheduler: each a small object without threads, sockets or a clock of its own."""
