"""The library that runs the encoder reports to nobody: its telemetry is on unless one turns it off."""

import os
import subprocess
import sys
from pathlib import Path


def test_encoding_a_text_writes_no_file_and_sends_nothing(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TMPDIR": str(tmp_path)}  # and no sign of CI
    program = "from memsheaf.encode import built_in; built_in().encode(['hello'])"

    subprocess.run([sys.executable, "-P", "-c", program], env=environment, check=True)

    assert list(tmp_path.rglob("*")) == []
