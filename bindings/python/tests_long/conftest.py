"""The second tier: a daemon and an sshd as those of the first one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conftest import *  # noqa: E402, F403
