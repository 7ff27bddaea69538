"""Naive references for the tests, written from the paper alone: nothing here imports pilu."""
