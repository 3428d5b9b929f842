"""What can go wrong. Every exception can be sent from one process to another."""

from __future__ import annotations

from typing import Optional


class LabError(Exception):
    """What the lab itself has to say."""


class FileError(LabError, ValueError):
    """A file is wrong. Its message names file, line and key, and what would be right."""

    def __init__(self, message: str, file: str, line: Optional[int], key: str) -> None:
        super().__init__(message, file, line, key)
        #: As it was given; what `loads` calls its text.
        self.file = file
        #: Counted from 1; None where the file says nothing about the key at all.
        self.line = line
        #: Dotted; empty where the text is not TOML.
        self.key = key

    def __str__(self) -> str:
        return str(self.args[0])


class RunError(LabError, RuntimeError):
    """A run could not be made, or broke a promise of the simulator."""


class StoreError(LabError, OSError):
    """A file of results cannot be read or written, or holds something else."""


class WorkerLost(LabError, RuntimeError):
    """A shard was lost with its worker, again and again."""
