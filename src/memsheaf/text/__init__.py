"""Text analysis without policy: sentences, requests to remember, similarity, Markdown sections, dates, tokenizer."""
