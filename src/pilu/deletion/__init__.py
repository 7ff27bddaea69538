"""The deletion desk: a store that forgets and a ledger that remembers."""
