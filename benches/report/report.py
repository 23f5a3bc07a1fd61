#!/usr/bin/env python3
"""Makes a page, tables and plots of result lines.

    report.py FILE...                  into benches/results/GPU/, GPU by the machine's line
    report.py --under FOLDER FILE...   into FOLDER/GPU/
    report.py --into FOLDER FILE...    into FOLDER itself

FILE is what CUPOOL_BENCH_RECORD named, or a results.json. Needs matplotlib (requirements.txt).
"""

import argparse
import os
import re
import sys

import results

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--under", metavar="FOLDER", default=os.path.join(HERE, "..", "results"))
    parser.add_argument("--into", metavar="FOLDER")
    parser.add_argument("--png", action="store_true", help="plots as PNG, to look at")
    given = parser.parse_args()

    found = results.read(given.files)
    if not found.lines:
        raise SystemExit("no result lines")
    folder = given.into or os.path.join(given.under, name_of(found.machine))
    os.makedirs(folder, exist_ok=True)
    # Here, so that all else can be had without matplotlib.
    import page
    import plots

    drawn = plots.draw(found, folder, ".png" if given.png else ".svg")
    results.write_json(found, os.path.join(folder, "results.json"))
    results.write_csv(found, os.path.join(folder, "results.csv"))
    page.write(found, drawn, os.path.join(folder, "README.md"))
    print(f"{os.path.relpath(folder)}: {len(found.lines)} results, {len(drawn)} plots")
    for bar in page.bars.all_bars(found):
        print(f"  {bar.verdict.strip('*'):<12} {bar.text}: {bar.figure} ({bar.bound})")


def name_of(machine):
    """Such as `h200`."""
    if "gpu" not in machine:
        raise SystemExit("no line says which GPU this is: name a folder with --into")
    name = machine["gpu"].removeprefix("NVIDIA ")
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


if __name__ == "__main__":
    sys.exit(main())
