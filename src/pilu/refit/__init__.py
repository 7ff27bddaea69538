"""Refit: solve a convex head again on the rows that are left, with a proved distance."""
