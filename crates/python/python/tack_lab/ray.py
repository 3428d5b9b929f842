"""Ray as an executor: it has tasks, but no `submit`."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any, Callable

import ray


class RayExecutor:
    """Submits to the cluster that `ray.init` connected to; `options` are those of `ray.remote`."""

    def __init__(self, **options: Any) -> None:
        if not ray.is_initialized():
            ray.init()
        self._options = {"num_cpus": 1, **options}
        self._functions: dict[Callable[..., Any], Any] = {}

    @property
    def workers(self) -> int:
        """How many tasks run at a time."""
        cpus = ray.cluster_resources().get("CPU", 1.0)
        return max(1, int(cpus / max(self._options["num_cpus"], 0.01)))

    def submit(self, function: Callable[..., Any], /, *args: Any) -> "Future[Any]":
        """The future of `function(*args)`."""
        remote = self._functions.get(function)
        if remote is None:
            remote = ray.remote(**self._options)(function)
            self._functions[function] = remote
        future: Future[Any] = remote.remote(*args).future()
        return future
