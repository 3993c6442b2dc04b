"""The chat: an agent that remembers, with a model or offline.

Deferred imports, to start quickly: readline, where an interactive prompt is read without prompt_toolkit; rich, with
the first answer on a terminal (terminal).
"""
