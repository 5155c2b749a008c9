"""Checks the wheel of a folder: one file, for any CPython from 3.11 on, and for other Linuxes.

python3 tools/wheel.py dist/wheel
"""

import re
import sys
import zipfile
from pathlib import Path

NAME = re.compile(r"vstream-[\w.+]+-cp311-abi3-(?P<platform>[\w.]+)\.whl")
# The builder names the oldest system whose symbols suffice; "linux" alone means it did not look.
PLATFORM = re.compile(r"manylinux_\d+_\d+_\w+|manylinux20\d\d_\w+|musllinux_\d+_\d+_\w+")
NEEDED = {
    "vstream/__init__.py",
    "vstream/_native.pyi",
    "vstream/py.typed",
    "vstream/_native.abi3.so",
}


def problems(folder: Path) -> list[str]:
    """Return what is wrong with the wheel of a folder."""
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        return [f"{folder} has {len(wheels)} wheels, not one"]
    found = NAME.fullmatch(wheels[0].name)
    if found is None:
        return [f"{wheels[0].name} is not for the stable interface of CPython 3.11"]
    # A name may list several platforms, one after the other.
    names = found["platform"].split(".")
    said = [f"{name} is no manylinux tag" for name in names if not PLATFORM.fullmatch(name)]
    missing = NEEDED - set(zipfile.ZipFile(wheels[0]).namelist())
    return said + [f"{wheels[0].name} has no {name}" for name in sorted(missing)]


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print("\n".join(wrong) or f"{next(Path(sys.argv[1]).glob('*.whl')).name} is as it should be")
    sys.exit(bool(wrong))
