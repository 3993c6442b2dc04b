"""Which memories matter for a message, and how they enter a prompt."""
