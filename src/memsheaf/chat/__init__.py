"""The chat: an agent that remembers, with a model or offline."""
