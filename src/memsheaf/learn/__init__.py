"""Learning: from conversation to memory, and keeping the memories consolidated."""
