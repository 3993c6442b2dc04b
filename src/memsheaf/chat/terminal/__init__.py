"""The terminal interface of the chat."""
