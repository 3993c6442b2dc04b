"""The index: search and catalog, derived from the files and safe to delete.

Deferred imports, to start quickly: numpy and all that ranks by meaning (embedding, vectors, scoring), caches, and the
secret check.
"""
