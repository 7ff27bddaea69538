"""One script a picture."""
