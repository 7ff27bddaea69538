"""The problem: rows, sufficient statistics, eigenbasis."""
