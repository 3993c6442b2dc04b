"""No property is judged by its time: the first example compiles patterns, and a busy machine is slow."""

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
