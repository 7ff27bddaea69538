"""The store: a folder that changes as a whole, with a log that only grows."""

from pilu._extras import need_posix

need_posix("a store")  # its locks, and folders that are flushed to the disk
