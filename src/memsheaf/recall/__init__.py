"""The memories that matter for a message, and how they enter a prompt.

Deferred imports, to start quickly: the secret check, git for citations.
"""
