"""How fast memsheaf is, and against what. Run `python -m benchmarks.run`; README.md says how to read it."""
