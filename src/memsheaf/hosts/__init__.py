"""Coding agents that memsheaf is a guest in: hooks, installation, import of their memories.

Deferred imports, to start quickly: a hook that a running server answers loads nothing else, one that finds its text
in the cache loads no layers; secrets and messages are looked at only where something is kept or logged.
"""
