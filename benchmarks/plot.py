"""The same numbers as a picture. Needs matplotlib, the `bench` extra."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from benchmarks.served import Served
from benchmarks.sizes import Figures
from benchmarks.targets import SAVE_CPU_MS

PANELS = (("save", "one save, catalog included"), ("search", "search, best 5"), ("start", "start context"))


def draw(sizes: Sequence[Figures], path: str) -> bool:
    """Draw CPU time against the number of memories; False when there is no matplotlib to draw with."""
    pyplot = _pyplot()
    if not pyplot:
        return False
    counts = [found.size for found in sizes]
    figure, panels = pyplot.subplots(1, len(PANELS), figsize=(12, 4), sharey=True)
    for panel, (name, title) in zip(panels, PANELS, strict=True):
        panel.loglog(counts, [found.documents[name].cpu_ms for found in sizes], "s--", label="documents' algorithm")
        panel.loglog(counts, [found.ours[name].cpu_ms for found in sizes], "o-", label="memsheaf")
        if name == "save":
            panel.loglog(counts, [found.yardstick.cpu_ms for found in sizes], ":", color="grey", label="yardstick")
            panel.axhline(SAVE_CPU_MS, color="grey", linewidth=0.5, label=f"promised: {SAVE_CPU_MS:g} ms")
        panel.set(title=title, xlabel="memories")
        panel.grid(alpha=0.3)
        panel.legend(fontsize="small")
    panels[0].set_ylabel("CPU ms, median")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
    return True


def draw_servers(servers: Sequence[Served], path: str) -> bool:
    """Draw what each MCP server takes to its first answers; False when there is no matplotlib to draw with."""
    pyplot = _pyplot()
    if not pyplot:
        return False
    good = [found for found in reversed(servers) if not found.why]
    names = [found.server.name for found in good]
    figure, panel = pyplot.subplots(figsize=(9, 1 + 0.5 * len(good)))
    searches = [found.first["search"].cpu_ms if "search" in found.first else 0 for found in good]
    panel.barh(names, searches, color="lightgrey", label="first search")
    bars = panel.barh(names, [found.launch.cpu_ms for found in good], label="tools/list")
    panel.bar_label(bars, [f"{found.launch.cpu_ms:,.0f}" for found in good], label_type="center", color="white")
    panel.set(xscale="log", xlim=(10, None), xlabel="CPU ms from the launch to the first answer, median")
    panel.legend(fontsize="small")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    pyplot.close(figure)
    return True


def _pyplot() -> Any:
    """What draws into files, None when it is not installed."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        return importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return None
