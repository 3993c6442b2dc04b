"""Text analysis without policy: phrases, similarity, Markdown sections, dates, tokenizer.

Deferred imports, to start quickly: calendar, and the prompts that hold the lists of phrases.
"""
