"""Language models as the settings name them, within the caps that the settings give."""

from __future__ import annotations

import os
from collections.abc import Callable

from memsheaf.config import Settings
from memsheaf.llm import Model, load_model
from memsheaf.llm.spend import Ledger, Metered


def metered(
    purpose: str, model: Model | str | None, settings: Settings, *, clock: Callable[[], float]
) -> Model | None:
    """The model, or the one that the settings name, with the caps of the settings; None for "none" or without.

    Raises:
        ModelFailed, BadSettings: it cannot be used.
    """
    model = model or settings.model
    if isinstance(model, str):
        own = model == settings.model  # address and key in the settings are for it and for no other
        url, key = (settings.model_url, settings.model_key) if own else ("", "")
        model = load_model(model, url=url, key=key) if model and model != "none" else None
    if model is None or isinstance(model, Metered):
        return model
    ledger = Ledger.of(settings.state or os.path.join(settings.home, "state"), clock=clock)
    return Metered(model, ledger, settings.caps, purpose)
