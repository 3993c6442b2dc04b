"""Layers around a project: tasks, sessions, notes, facts, and what moves between them."""
