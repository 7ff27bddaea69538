"""The report: one page about a store, to open, print and archive (needs ``pilu[desk]``)."""
