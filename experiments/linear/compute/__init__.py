"""One script a table."""
