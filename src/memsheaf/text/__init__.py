"""What texts are, without policy: phrases, similarity, Markdown sections, dates, words."""
