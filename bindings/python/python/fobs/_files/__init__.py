"""What the file systems for fsspec are made of: names, sessions, open files. See ``fobs.fsspec``."""
