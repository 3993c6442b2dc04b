"""Checks on what enters and leaves a memory folder.

Deferred imports, to start quickly: the table of secret formats, before the first text that may hold one.
"""
