"""What may enter a memory folder, and what may leave it."""
