"""Learning: from conversation to memory, and keeping the memories consolidated.

Deferred imports, to start quickly: git, for the journal of a log in a checkout.
"""
