"""The command `tack`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import sysconfig
from typing import NoReturn

from ._native import main as _main


def _program() -> str:
    """What starts this command again: its script, however it was started."""
    own = sys.argv[0]
    if os.path.isfile(own) and os.access(own, os.X_OK) and not own.endswith(".py"):
        return os.path.abspath(own)
    installed = os.path.join(sysconfig.get_path("scripts"), "tack")
    return installed if os.path.exists(installed) else shutil.which("tack") or own


def main() -> NoReturn:
    """Runs the command line, and ends the process with its status."""
    # Ctrl-C is the command's, as in the binary: Python would hear of it only afterwards. Whoever started
    # us with the signal ignored meant that.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _main(sys.argv, _program())


if __name__ == "__main__":
    main()
