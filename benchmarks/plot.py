"""The same numbers as a picture. Needs matplotlib, the `bench` extra."""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from benchmarks.sizes import Figures
from benchmarks.targets import SAVE_CPU_MS

PANELS = (("save", "one save, catalog included"), ("search", "search, best 5"), ("start", "start context"))


def draw(sizes: Sequence[Figures], path: str) -> bool:
    """Draw CPU time against the number of memories; False when there is no matplotlib to draw with."""
    try:
        importlib.import_module("matplotlib").use("Agg")
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
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
