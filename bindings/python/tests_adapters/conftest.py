"""The daemon of the other tests."""

import os
import tempfile

from tests.conftest import served, shared

# Rucio reads a configuration on import.
_config = tempfile.NamedTemporaryFile("w", suffix=".cfg")
_config.write("[common]\nmulti_vo = False\n[client]\nprotocol_stat_retries = 1\n[policy]\n")
_config.flush()
os.environ["RUCIO_CONFIG"] = _config.name
# Airflow makes files on import, too.
_airflow = tempfile.TemporaryDirectory()
os.environ |= {"AIRFLOW_HOME": _airflow.name, "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}

__all__ = ["served", "shared"]
