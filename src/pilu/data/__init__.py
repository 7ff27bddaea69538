"""Rows: where they are, how they are known, and what is collected of them."""
