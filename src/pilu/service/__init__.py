"""The desk as a service, over HTTP, with a page (``pilu[serve]``)."""
