"""Gather the texts that the static table learns from: documentation and descriptions out of package registries.

    python training/collect.py FOLDER          # 1 GB of packages in FOLDER, then FOLDER/texts.jsonl.xz

Debian 12's `apt-get` and `dpkg-deb`, and the registry of PyPI by package name, are all it needs. The packages are
those that `sources.json` names; for PyPI, that is where a walk along dependencies begins. Nothing of the texts is
handed on: they are read here, and what is learned from them is a table of numbers.

A line of the result is one document: {"s": source, "t": title, "p": [paragraph, …]}.
"""

from __future__ import annotations

import gzip
import html
import json
import lzma
import os
import re
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser

Document = tuple[str, list[str]]

PARAGRAPH = 30, 1_200  # characters; shorter ones say nothing, longer ones are cut
OF_ONE_DOCUMENT = 400
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sources.json")


def main(folder: str) -> None:
    """Fetch what is not there yet, and write the texts."""
    with open(SOURCES, encoding="utf-8") as file:
        sources = json.load(file)
    debian = fetch_debian(sources["debian"], os.path.join(folder, "debian"))
    pypi = walk(sources["pypi"], sources["pypi_count"], os.path.join(folder, "pypi"))
    seen: set[str] = set()
    counts: dict[str, int] = {}
    with lzma.open(os.path.join(folder, "texts.jsonl.xz"), "wt", encoding="utf-8", preset=6) as out:
        for source, (title, paragraphs) in all_documents(debian, pypi):
            kept = [
                text for text in map(clean, paragraphs) if is_telling(text) and not (text in seen or seen.add(text))
            ]
            if kept:
                counts[source] = counts.get(source, 0) + len(kept)
                line = {"s": source, "t": clean(title)[:200], "p": kept[:OF_ONE_DOCUMENT]}
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    for source, count in sorted(counts.items(), key=lambda item: -item[1]):
        print(f"{count:>9,} {source}")
    print(f"{sum(counts.values()):>9,} paragraphs in all")


def all_documents(debian: dict[str, str], pypi: dict[str, Document]) -> Iterator[tuple[str, Document]]:
    """Every document with the name of its source, in an order that does not depend on time."""
    yield from (("pypi", pypi[name]) for name in sorted(pypi))
    yield from (("debian descriptions", document) for document in descriptions(debian["descriptions"]))
    for package, place in sorted(debian.items()):
        for path in sorted(files_below(place)) if package != "descriptions" else ():
            for ending, reader in READERS.items():
                if path.endswith(ending):
                    yield from ((package, document) for document in reader(path))


# what the registries hold


def fetch_debian(packages: list[str], folder: str) -> dict[str, str]:
    """Unpack the packages, each in a folder of its own, and the descriptions of all there are."""
    os.makedirs(folder, exist_ok=True)
    places = {}
    for package in packages:
        place = places[package] = os.path.join(folder, package)
        if not os.path.exists(place):
            subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, capture_output=True)
            [found] = [name for name in os.listdir(folder) if name.startswith(f"{package}_")]
            subprocess.run(["dpkg-deb", "-x", os.path.join(folder, found), place], check=True)
    places["descriptions"] = os.path.join(folder, "Translation-en.xz")
    if not os.path.exists(places["descriptions"]):
        address = "http://deb.debian.org/debian/dists/bookworm/main/i18n/Translation-en.xz"
        urllib.request.urlretrieve(address, places["descriptions"])
    return places


def walk(begin: list[str], count: int, folder: str) -> dict[str, Document]:
    """The entries of so many packages: those named, those that they need, and so on."""
    os.makedirs(folder, exist_ok=True)

    def fetched(name: str) -> tuple[Document, list[str]]:
        path = os.path.join(folder, urllib.parse.quote(name, safe="") + ".json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        try:
            found = pypi_entry(name)
        except (OSError, ValueError, KeyError, TypeError):
            found = ("", []), []
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
        return found

    found: dict[str, Document] = {}
    waiting = list(dict.fromkeys(begin))
    with ThreadPoolExecutor(16) as pool:
        while waiting and len(found) < count:
            batch, waiting = waiting[:64], waiting[64:]
            for name, (document, needs) in zip(batch, pool.map(fetched, batch), strict=True):
                found[name] = (document[0], list(document[1]))
                waiting += [other for other in needs if other not in found]
            waiting = [name for name in dict.fromkeys(waiting) if name not in found]
    return found


def pypi_entry(name: str) -> tuple[Document, list[str]]:
    """Summary and README of a package, and what it needs."""
    info = _json(f"https://pypi.org/pypi/{name}/json")["info"]
    needs = [re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0].lower() for need in info.get("requires_dist") or ()]
    return (info.get("summary") or name, markdown(info.get("description") or "")), needs


def _json(address: str) -> dict:
    request = urllib.request.Request(address, headers={"User-Agent": "memsheaf-training"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


# from files to documents


def descriptions(path: str) -> Iterator[Document]:
    """Debian's packages in a line and in paragraphs."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for record in file.read().split("\n\n"):
            if found := re.search(r"^Description-en: (.*)\n((?: .*\n?)*)", record, re.MULTILINE):
                text = re.sub(r"^ ", "", found[2], flags=re.MULTILINE)
                yield found[1], [" ".join(part.split()) for part in re.split(r"^\.$", text, flags=re.MULTILINE)]


def wordnet(path: str) -> Iterator[Document]:
    """Words and what they mean, with examples."""
    if not re.search(r"/data\.(noun|verb|adj|adv)$", path):
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            if not line.startswith(" ") and " | " in line:
                fields, gloss = line.split(" | ", 1)
                parts = fields.split(" ")
                words = [parts[4 + 2 * place].replace("_", " ") for place in range(int(parts[3], 16))]
                yield ", ".join(words), [f"{gloss.strip()}"]


def dictionary(path: str) -> Iterator[Document]:
    """A dictd dictionary: a headword at the margin, its text indented."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        for block in re.split(r"\n(?=\S)", file.read()):
            head, _, text = block.partition("\n")
            if text.strip():
                yield head.strip(), [" ".join(part.split()) for part in re.split(r"\n\s*\n", text)]


def page(path: str) -> Iterator[Document]:
    """A page of HTML: a heading and what stands under it is a document."""
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8", errors="replace") as file:
        parser = _Page()
        parser.feed(file.read(3_000_000))
        parser.flush()
    yield from parser.documents


class _Page(HTMLParser):
    _HEADS = ("h1", "h2", "h3", "h4", "dt")
    _BLOCKS = ("p", "li", "dd", "td", "blockquote", "div", "section", "br", "pre", "table", "tr")
    _SKIPPED = ("script", "style", "nav", "head", "pre")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.documents: list[Document] = []
        self._title, self._paragraphs, self._text = "", [], []
        self._skipping = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in self._SKIPPED:
            self._skipping += 1
        elif tag in self._HEADS:
            self.flush()
        elif tag in self._BLOCKS:
            self._end()

    def handle_endtag(self, tag: str) -> None:
        if tag in self._SKIPPED:
            self._skipping = max(0, self._skipping - 1)
        elif tag in self._HEADS:
            self._title = " ".join("".join(self._text).replace("¶", "").split())
            self._text = []
        elif tag in self._BLOCKS:
            self._end()

    def handle_data(self, data: str) -> None:
        if not self._skipping:
            self._text.append(data)

    def _end(self) -> None:
        if text := " ".join("".join(self._text).split()):
            self._paragraphs.append(text)
        self._text = []

    def flush(self) -> None:
        self._end()
        if self._paragraphs:
            self.documents.append((self._title, self._paragraphs))
        self._title, self._paragraphs = "", []


def manual(path: str) -> Iterator[Document]:
    """A manual page, its macros taken away: a section is a document."""
    with gzip.open(path, "rt", encoding="utf-8", errors="replace") as file:
        text = file.read()
    name = os.path.basename(path).split(".")[0]
    for section in re.split(r"^\.SH ", text, flags=re.MULTILINE)[1:]:
        head, _, rest = section.partition("\n")
        rest = re.sub(r"^\.(?:PP|P|TP|LP|IP.*|HP|SS.*|br|sp)$", "\n", rest, flags=re.MULTILINE)
        rest = re.sub(r"^\.\w+ ?|\\f.|\\[&/,|]|\\\(..|\"", "", rest, flags=re.MULTILINE).replace("\\-", "-")
        yield f"{name} {head.lower().strip(chr(34))}", [" ".join(part.split()) for part in re.split(r"\n\s*\n", rest)]


def fortune(path: str) -> Iterator[Document]:
    """Sayings, and verses: everyday language."""
    if "/fortunes/" in path and "." not in os.path.basename(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from (("", [" ".join(saying.split())]) for saying in file.read().split("\n%\n"))


def markdown(text: str) -> list[str]:
    """The paragraphs of a README, without code, tables, badges and addresses."""
    text = re.sub(r"```.*?```|~~~.*?~~~|<!--.*?-->", "\n\n", text[:200_000], flags=re.DOTALL)
    text = re.sub(r"!\[[^\]]*\]\([^)]*\)|<[^>]+>", " ", text)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    paragraphs = re.split(r"\n\s*\n|\n(?=\s*(?:[-*+]|\d+\.)\s)|\n(?=#)|(?<=\n)[=\-~^]{3,}\n", text)
    return [" ".join(part.split()) for part in paragraphs if not part.lstrip().startswith(("|", "..", "    ", ">>>"))]


READERS: dict[str, Callable[[str], Iterator[Document]]] = {
    ".html": page,
    ".html.gz": page,
    ".dict.dz": dictionary,
    "/data.noun": wordnet,
    "/data.verb": wordnet,
    "/data.adj": wordnet,
    "/data.adv": wordnet,
    ".gz": lambda path: manual(path) if "/man/" in path else iter(()),
    "": fortune,
}


def files_below(place: str) -> Iterator[str]:
    """Every file of an unpacked package."""
    for folder, _, names in os.walk(place):
        yield from (os.path.join(folder, name) for name in names if not os.path.islink(os.path.join(folder, name)))


def clean(text: str) -> str:
    """One line, no markup, no addresses."""
    text = re.sub(r"https?://\S+|[*`#|_]{2,}|^[-*+#>\s]+", " ", html.unescape(text))
    return " ".join(text.replace("`", "").split())[: PARAGRAPH[1]]


def is_telling(text: str) -> bool:
    """Whether it is a text in Latin letters, not a table, a list of numbers, or a line of code."""
    letters = sum(character.isascii() and (character.isalpha() or character == " ") for character in text)
    return PARAGRAPH[0] <= len(text) and letters > 0.8 * len(text) and len(text.split()) >= 5


if __name__ == "__main__":
    main(sys.argv[1])
