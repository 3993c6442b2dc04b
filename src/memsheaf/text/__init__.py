"""Text analysis without policy: phrases, similarity, Markdown sections, dates, tokenizer."""
