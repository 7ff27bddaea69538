"""Ridge regression on mini-batches."""
