"""Coding agents that memsheaf is a guest in: hooks, installation, import of their memories."""
