"""A tool for fpsync: ``fpsync -T $(command -v fobs-fpsync) ... /src/ fobs://host/dst/``.

fpsync calls its tool as it calls rsync, whose options ``fobs sync`` has; a remote destination is whatever has a
colon before its first slash. So the tool is ``fobs sync --quiet``: fpsync takes any line of stderr for a failure.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Becomes ``fobs sync --quiet``."""
    try:
        os.execvp("fobs", ["fobs", "sync", "--quiet", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"fobs-fpsync: cannot run fobs: {error.strerror}; put it on the PATH")
