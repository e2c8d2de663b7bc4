"""Thin adapters for programs of others: ``rucio``, ``rucio_transfertool``, ``parsl``, ``prefect``, ``airflow``,
``fpsync``; Snakemake's is a package of its own name, ``snakemake_storage_plugin_fobs``. Each needs its program:
``pip install 'fobs[rucio]'``, ``'fobs[parsl]'``, ``'fobs[prefect]'``, ``'fobs[airflow]'``, ``'fobs[snakemake]'``."""
