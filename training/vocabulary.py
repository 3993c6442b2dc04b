"""Make the tokenizer of the multilingual encoder: MiniLM's word pieces, and those of 20 other languages.

    python training/vocabulary.py WORK [--size 60000]      # writes WORK/tokenizer.json; two minutes

A new piece that English words would be cut into is left out, so that English texts are cut as MiniLM cuts them.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

import data

MAX_CANDIDATE_PIECES = 70_000
MAX_ENGLISH_SHARE = 0.25  # of the uses of a piece; above, it is left out
ROUNDS = 3  # leaving out pieces changes how the other words are cut


def main() -> None:
    """Learn pieces from translations, choose among them, and write the tokenizer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("--size", type=int, default=60_000)
    options = parser.parse_args()
    with lzma.open(os.path.join(options.work, "translations.json.xz"), "rt", encoding="utf-8") as file:
        translations = json.load(file)
    with lzma.open(os.path.join(options.work, "english.json.xz"), "rt", encoding="utf-8") as file:
        english = json.load(file) + translations["en"]
    translated = [text for _, _, text in translations["rows"]]
    translated += [text for text in own_texts() if not text.isascii()]
    english += [text for text in own_texts() if text.isascii()]
    with open(os.path.join(options.work, "minilm", "tokenizer.json"), encoding="utf-8") as file:
        own: dict[str, int] = json.load(file)["model"]["vocab"]
    learning = assemble({"[UNK]": 0})
    trainer = trainers.WordPieceTrainer(vocab_size=MAX_CANDIDATE_PIECES, special_tokens=["[UNK]"], min_frequency=3)
    learning.train_from_iterator(translated, trainer)
    pieces = [piece for piece in learning.get_vocab() if piece not in own]
    foreign_words, english_words = count_words(translated), count_words(english)
    share = sum(foreign_words.values()) / sum(english_words.values())
    for _ in range(ROUNDS):
        both = assemble(own | {piece: len(own) + number for number, piece in enumerate(pieces)})
        foreign_uses, english_uses = count_pieces(both, foreign_words), count_pieces(both, english_words)
        pieces = [
            piece
            for piece in pieces
            if foreign_uses[piece] and english_uses[piece] * share < MAX_ENGLISH_SHARE * foreign_uses[piece]
        ]
        print(len(pieces), "pieces")
    pieces.sort(key=lambda piece: (len(piece.removeprefix("##")) > 1, -foreign_uses[piece], piece))
    pieces = pieces[: options.size - len(own)]
    tokenizer = assemble(own | {piece: len(own) + number for number, piece in enumerate(pieces)})
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", own["[CLS]"]), ("[SEP]", own["[SEP]"])],
    )
    tokenizer.save(os.path.join(options.work, "tokenizer.json"), pretty=False)
    plain = assemble(own)
    changed = sum(
        count for word, count in english_words.items() if pieces_of(plain, word) != pieces_of(tokenizer, word)
    )
    print(f"{tokenizer.get_vocab_size()} pieces")
    print(f"{changed / sum(english_words.values()):.2%} of English words are cut in another way")
    common = foreign_words.most_common(200_000)
    total = sum(len(pieces_of(tokenizer, word)) * count for word, count in common)
    print(f"{total / sum(count for _, count in common):.2f} pieces for each foreign word")


def assemble(vocabulary: dict[str, int]) -> Tokenizer:
    """Return a tokenizer of word pieces that keeps accents and folds case."""
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def own_texts() -> Iterator[str]:
    """Yield the texts in this folder that a model may learn from."""
    for world in data.worlds("training"):
        yield from (each["text"] for each in (*world["memories"], *world["messages"]))
    for dialogue in data.dialogues("training"):
        yield from (turn["text"] for turn in dialogue["turns"])
    for read in (data.sentences, data.messages, data.scopes):
        yield from (each.text for each in read("training"))


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Return how often each word occurs."""
    tokenizer = assemble({"[UNK]": 0})
    counts: Counter[str] = Counter()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        counts.update(word for word, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
    return counts


def pieces_of(tokenizer: Tokenizer, word: str) -> list[str]:
    """Return the pieces that a word is cut into."""
    return [token.value for token in tokenizer.model.tokenize(word)]


def count_pieces(tokenizer: Tokenizer, words: Counter[str]) -> Counter[str]:
    """Return how often each piece occurs in counted words."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for piece in pieces_of(tokenizer, word):
            counts[piece] += count
    return counts


if __name__ == "__main__":
    main()
