"""Coding agents that memsheaf is a guest in: hooks, installation, import of their memories.

Deferred imports, to start quickly: a hook that a running server answers loads nothing else; the checks of secrets are
loaded only where something is kept or logged.
"""
