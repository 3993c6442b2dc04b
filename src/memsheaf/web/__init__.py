"""The web page: one route file a page, templates in `templates/`, all texts in `texts.toml`.

Starlette, Jinja2, markdown-it-py and nh3 come with `memsheaf[web]`. Only `memsheaf web` imports
this package, and the chat `links.py`. Deferred imports, to start quickly: `webbrowser`.
"""
