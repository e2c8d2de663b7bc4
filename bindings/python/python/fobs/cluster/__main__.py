"""``python -m fobs.cluster``: the command ``fobs cluster``."""

import sys

from ._cli import main

sys.exit(main())
