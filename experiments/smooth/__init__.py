"""Logistic regression that forgets: digits, photographs and texts by frozen features."""
