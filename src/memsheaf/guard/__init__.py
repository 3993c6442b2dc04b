"""Checks on what enters and leaves a memory folder."""
