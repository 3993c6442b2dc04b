"""A small agent to live with: a conversation with a model, or without one, that remembers."""
