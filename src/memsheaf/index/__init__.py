"""The index: search and catalog, derived from the files and safe to delete."""
