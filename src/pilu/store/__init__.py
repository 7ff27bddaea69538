"""The store: a folder that changes as a whole, with a log that only grows."""
