"""The chat: an agent that remembers, with a model or offline.

Deferred imports, to start quickly: pydantic-ai, with the first turn that asks a model (agent).
"""
