"""Renders the charts with helm, so that tests read what Kubernetes would without having helm.

charts.py HELM lints the charts, renders them to the folder rendered, and says what changed. A rendered file
begins with the digest of what it was rendered from, by which a test sees that it is of today.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

HELM = Path(__file__).parent
# Name of the rendered file: its chart and its values; none for those of the chart itself.
RENDERED: dict[str, tuple[str, str | None]] = {
    "serve-default.yaml": ("vstream-serve", None),
    "serve.yaml": ("vstream-serve", "serve.yaml"),
    "job.yaml": ("vstream-job", "job.yaml"),
}


def digest(name: str) -> str:
    """The digest of what a rendered file was made from."""
    chart, values = RENDERED[name]
    files = sorted(path for path in (HELM / chart).rglob("*") if path.is_file())
    if values:
        files.append(HELM / "examples" / values)
    whole = hashlib.sha256()
    for path in files:
        whole.update(f"{path.relative_to(HELM)}\0".encode())
        whole.update(path.read_bytes() + b"\0")
    return whole.hexdigest()


def render(helm: str, name: str) -> str:
    """A chart as helm renders it, after its lint."""
    chart, values = RENDERED[name]
    given = ["--values", str(HELM / "examples" / values)] if values else []
    subprocess.run([helm, "lint", "--strict", str(HELM / chart), *given], check=True)
    command = [helm, "template", "vectors", str(HELM / chart), *given]
    made = subprocess.run(command, check=True, capture_output=True, text=True)
    return f"# Rendered by charts.py from {digest(name)}\n{made.stdout}"


def main() -> None:
    """Renders every chart."""
    for name in RENDERED:
        text = render(sys.argv[1], name)
        path = HELM / "rendered" / name
        is_new = not path.exists() or path.read_text() != text
        path.write_text(text)
        print(f"{name}: {'changed' if is_new else 'as it was'}")


if __name__ == "__main__":
    main()
