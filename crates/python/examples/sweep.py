"""One sweep, wherever it runs.

    python sweep.py FILE.toml --on threads                      all cores of this machine
    python sweep.py FILE.toml --on processes --workers 2
    python sweep.py FILE.toml --on dask --address tcp://HOST:8786
    python sweep.py FILE.toml --on ray --address HOST:6379
    python sweep.py FILE.toml --on slurm --folder SHARED/jobs --workers 100

Interrupted or killed, the same command goes on where the store (--store) ends.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from typing import Any

import tack_lab as lab


def executor(args: argparse.Namespace, stack: ExitStack) -> Any:
    """Where it runs: the only lines that differ."""
    if args.on == "threads":
        return None
    if args.on == "processes":
        return stack.enter_context(ProcessPoolExecutor(args.workers))
    if args.on == "dask":
        from distributed import Client

        if args.address:
            return stack.enter_context(Client(args.address))
        local = {"n_workers": args.workers, "threads_per_worker": 1, "dashboard_address": None}
        return stack.enter_context(Client(**local))
    if args.on == "ray":
        import ray
        from tack_lab.ray import RayExecutor

        local = {} if args.address else {"num_cpus": args.workers, "include_dashboard": False}
        ray.init(address=args.address or "local", **local)
        stack.callback(ray.shutdown)
        return RayExecutor()
    import submitit

    slurm = submitit.AutoExecutor(folder=args.folder)
    slurm.update_parameters(timeout_min=60, cpus_per_task=1, slurm_partition=args.partition)
    return slurm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--on", choices=["threads", "processes", "dask", "ray", "slurm"], default="threads")
    parser.add_argument("--workers", type=int, default=2, help="shards at a time")
    parser.add_argument("--store", default="runs.jsonl")
    parser.add_argument("--shard-s", type=float, default=60.0, help="about how long a shard takes, seconds")
    parser.add_argument("--address", help="of a Dask scheduler or a Ray head; without, one on this machine")
    parser.add_argument("--folder", default="jobs", help="where Slurm's jobs keep what they are and say")
    parser.add_argument("--partition", help="of Slurm's")
    args = parser.parse_args()
    plan = lab.load(args.file)
    with ExitStack() as stack:
        results = lab.sweep(
            plan,
            executor(args, stack),
            store=args.store,
            workers=args.workers,
            shard_s=args.shard_s,
            progress=True,
        )
    print(results.text(), end="")


# Processes that a worker starts anew import this file, and must not sweep themselves.
if __name__ == "__main__":
    main()
