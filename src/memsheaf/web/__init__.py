"""The web page: `app.py` lists the addresses, one module and some of `templates/` make each page.

Starlette, Jinja2, markdown-it-py and nh3 come with `memsheaf[web]`. Only `memsheaf web` imports
this package, and the chat `links.py`. Deferred imports, to start quickly: `webbrowser`.
"""
