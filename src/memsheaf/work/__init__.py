"""Layers around a project: tasks, sessions, notes, facts, and what moves between them.

Deferred imports, to start quickly: brief, compaction, learning and recall, which opening layers does not need.
"""
