"""Derived from the files and safe to delete: search and catalog."""
