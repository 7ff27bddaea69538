"""The command line; `python -m pilu` is the same as `pilu`."""
