"""Text analysis without policy: sentences, requests to remember, similarity, Markdown sections, dates, tokenizer.

Deferred imports, to start quickly: calendar.
"""
