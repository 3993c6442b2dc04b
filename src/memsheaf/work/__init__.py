"""Work on a project: tasks, sessions, notes, facts, and how notes move to wider scopes.

Deferred imports, to start quickly: brief, compaction, learning and recall, which few calls need.
"""
