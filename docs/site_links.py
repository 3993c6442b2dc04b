"""MkDocs hook: files of the repository that a page links to become part of the site, below repository/.

On a forge `../examples/openai_tools.py` leads to the file. The site holds only docs/, so what is linked is copied
into it: Markdown as pages, everything else as it is.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\(<?)([^)<>\s#:]+)(?=[)>#])")
ASIDE = "repository/"


def path_of(page):
    """Where the source of a page of the site is in the repository."""
    return page.removeprefix(ASIDE) if page.startswith(ASIDE) else "docs/" + page


def page_of(path):
    """Where a file of the repository is in the site."""
    return path.removeprefix("docs/") if path.startswith("docs/") else ASIDE + path


def target_of(page, link):
    """The path in the repository that a link in a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(path_of(page)), link))


def on_files(files, *, config):
    """Add what the pages link to, and what the added pages link to."""
    todo = [file.src_uri for file in files.documentation_pages()]
    for page in todo:
        for _, link in LINK.findall((ROOT / path_of(page)).read_text(encoding="utf-8")):
            path = target_of(page, link)
            if (ROOT / path).is_file() and files.get_file_from_path(page_of(path)) is None:
                files.append(File.generated(config, page_of(path), abs_src_path=str(ROOT / path)))
                todo += [page_of(path)] if path.endswith(".md") else []
    return files


def on_page_markdown(markdown, *, page, **_):
    """Let links lead to where these files are in the site."""
    here = page.file.src_uri

    def rewritten(match):
        path = target_of(here, match[2])
        return match[1] + posixpath.relpath(page_of(path), posixpath.dirname(here) or ".")

    return LINK.sub(rewritten, markdown)
