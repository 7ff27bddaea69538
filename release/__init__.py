"""Build, check and describe what is released; the Makefile calls these."""
