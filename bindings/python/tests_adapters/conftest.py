"""The daemon of the other tests."""

import os
import tempfile

from tests.conftest import served, shared

# Rucio reads a configuration on import.
_config = tempfile.NamedTemporaryFile("w", suffix=".cfg")
_config.write("[common]\nmulti_vo = False\n[client]\nprotocol_stat_retries = 1\n[policy]\n")
_config.flush()
os.environ["RUCIO_CONFIG"] = _config.name

__all__ = ["served", "shared"]
