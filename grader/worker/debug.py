"""One rank of a stored observation in the foreground: your terminal, your debugger, no limits, nothing judged.

python -m grader.worker.debug FD FLAVOUR
"""

from __future__ import annotations

import faulthandler
import socket
import sys

from grader.worker import rank
from grader.worker.zygote import preload


def main(fd: int, flavour: str) -> int:
    """Become the rank at this end of a line; exceptions pass through, so that `python -m pdb` and IDEs see them."""
    preload(flavour)
    rank.prepare()
    faulthandler.enable()
    return rank.take_part(socket.socket(fileno=fd), guarded=False)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2]))
