"""What a person sees of the chat, and types into it."""
