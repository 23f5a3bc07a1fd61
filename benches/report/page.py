"""The page: what was measured, whether it keeps what is promised, and where others are faster."""

import bars
import words
from results import OURS, RAW, in_steps, in_words_first, key

TITLES = {
    "alloc_free": "Allocate and free",
    "alloc_free_sync": "Allocate, free and synchronise",
    "churn": "Among many that live",
    "threads": "Threads",
    "trace_replay": "Recorded programs",
    "copies": "Copies",
    "fills": "Fills",
    "events": "Events",
    "cross_stream": "Between streams",
    "first_use": "First use",
    "ffi_overhead": "A call through the table",
    "instructions": "Instructions",
    "driver_calls": "Driver calls",
    "sizes": "Sizes of types",
}
UNITS = {
    "alloc_free": "Time of one allocation and its free, by size.",
    "alloc_free_sync": "Time of one allocation, its free and a synchronisation of the stream, by size.",
    "churn": "Time of one free and one allocation, by how many buffers live.",
    "threads": "Time of one allocation and free of 4 KiB in each of so many threads at once.",
    "trace_replay": "Allocations and frees of real programs, as recorded: time per event; reserved and live at most.",
    "copies": "Time until the call returns.",
    "fills": "Time until the call returns.",
    "events": "Time until the call returns.",
    "cross_stream": "Time until the calls return.",
    "first_use": "Times of a fresh process.",
    "ffi_overhead": "Time of one call of a C function that does next to nothing.",
    "instructions": "Instructions executed, with stand-ins for the driver.",
    "driver_calls": "Calls of the driver per operation.",
    "sizes": "Bytes.",
}
# The parameter that has a column for each of its values.
COLUMNS = {
    "alloc_free": "bytes",
    "alloc_free_sync": "bytes",
    "churn": "live",
    "threads": "threads",
    "trace_replay": "trace",
    "first_use": "what",
}
# Where others are looked for.
COMPARED = [
    "alloc_free",
    "alloc_free_sync",
    "churn",
    "threads",
    "trace_replay",
    "copies",
    "fills",
    "events",
    "cross_stream",
    "first_use",
]


def write(results, plots, path):
    parts = [head(results), proofs(), promises(results), faster(results)]
    for bench, title in TITLES.items():
        lines = results.of(bench)
        drawn = [plot for plot in plots if plot.bench == bench]
        if lines or drawn:
            pictures = "\n\n".join(f"![{plot.says}]({plot.file})" for plot in drawn)
            parts.append("\n\n".join(filter(None, [f"## {title}", UNITS[bench], pictures, table(bench, lines)])))
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n\n".join(parts) + "\n")


def head(results):
    machine = results.machine
    gpu = machine.get("gpu", "unknown GPU")
    names = [("gpu", "GPU"), ("driver", "driver"), ("cuda", "CUDA"), ("cpu", "CPU"), ("date", "date")]
    rows = [f"| {name} | {machine[at]} |" for at, name in names if at in machine]
    others = [
        f"| {name} | {value} |"
        for name, value in sorted(machine.items())
        if name not in dict(names) and not isinstance(value, dict)
    ]
    versions = [f"| {name} | {version} |" for name, version in sorted(machine.get("versions", {}).items())]
    sources = sorted({line["source"] for line in results.lines if "source" in line})
    return "\n".join(
        [
            f"# Measured on {article(gpu)}",
            "",
            "Written by `benches/report/report.py` from the result lines of `scripts/evidence`. How they are measured",
            "and what they do not say stands in [benches/README.md](../../README.md). All of them:",
            "[results.json](results.json), [results.csv](results.csv).",
            "",
            "| | |",
            "| --- | --- |",
            *rows,
            *others,
            *versions,
            f"| measured by | {', '.join(f'`{source}`' for source in sources)} |" if sources else "",
        ]
    ).rstrip()


def article(gpu):
    return f"an {gpu}" if gpu[:1] in "AEIOU" or gpu.startswith("NVIDIA") else f"a {gpu}"


def proofs():
    return (
        "What needs no GPU: [the driver calls of each operation](../driver-calls.md),"
        " [the sizes of all types](../sizes.md)."
    )


def promises(results):
    rows = [
        "## What is promised",
        "",
        "Ratios of times, ours by theirs: the highest over all sizes and settings. From pairs of neighbouring batches",
        "where both were measured in one process in turns, else from medians.",
        "",
        "| | bar | measured | | where | from |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for bar in bars.all_bars(results):
        verdict = "" if bar.measured is None else bar.verdict
        rows.append(f"| {bar.text} | {bar.bound} | {bar.figure} | {verdict} | {bar.where} | {bar.how} |")
    return "\n".join(rows)


def faster(results):
    rows = ["## Where others are faster", ""]
    found = bars.where_others_are_faster(results, COMPARED)
    if not any(line["who"] not in (OURS, RAW) for bench in COMPARED for line in results.of(bench)):
        return "\n".join([*rows, "No other was measured."])
    if not found:
        return "\n".join([*rows, "Nowhere in this run."])
    rows += [
        "Every workload in which another's median is below cupool's (as it comes), or another reserves less: with the",
        "ratio, theirs by ours.",
        "",
        "| | who | where |",
        "| --- | --- | --- |",
    ]
    grouped = {}
    for bench, ours, theirs, ratio in found:
        at = f"{words.workload(theirs['parameters'])}: {words.ratio(ratio)}".removeprefix(": ")
        grouped.setdefault((bench, words.who(theirs)), []).append(at)
    rows += [f"| {TITLES[bench]} | {who} | {'<br>'.join(places)} |" for (bench, who), places in grouped.items()]
    return "\n".join(rows)


def table(bench, lines):
    if not lines:
        return ""
    lines = without_the_same(lines)
    if bench == "instructions":
        return beside_each_other(lines)
    return across(lines, COLUMNS[bench]) if bench in COLUMNS else long(lines)


def without_the_same(lines):
    """What is live at most is the program's, whoever allocates it: once, unless somebody sees it otherwise."""
    live = [line for line in lines if line["parameters"].get("what") == "peak live"]
    seen = {}
    for line in live:
        seen.setdefault(key(line["parameters"]), set()).add(line["value"])
    if any(len(values) > 1 for values in seen.values()):
        return lines
    ours = [line for line in live if line["who"] == OURS] or live
    return [line for line in lines if line not in live or line in ours]


def beside_each_other(lines):
    """A row for each operation, a column for everybody."""
    everybody = sorted({line["who"] for line in lines}, key=lambda who: (who != RAW, who != OURS, who))
    rows = {}
    for line in lines:
        rows.setdefault(words.workload(line["parameters"]), {})[line["who"]] = f"{line['value']:,}"
    text = [f"| | {' | '.join(everybody)} |", f"| --- |{' ---: |' * len(everybody)}"]
    text += [f"| {what} | {' | '.join(cells.get(who, '') for who in everybody)} |" for what, cells in rows.items()]
    return "\n".join(text)


def across(lines, column):
    """A row for each way of doing it, a column for each value of one parameter."""
    columns, rows = {}, {}
    for line in lines:
        rest = {name: value for name, value in line["parameters"].items() if name != column}
        at = line["parameters"].get(column, "")
        columns[at] = None
        row = (
            words.workload(rest),
            line["who"] not in (RAW, OURS),
            line["who"] != RAW,
            words.who(line),
            line.get("source", ""),
        )
        rows.setdefault(row, {})[at] = line
    order = sorted(columns, key=in_steps)
    with_rest = any(row[0] for row in rows)
    with_source = len({row[:4] for row in rows}) < len(rows)
    first = ([""] if with_rest else []) + ["who"] + (["measured by"] if with_source else [])
    heads = [*first, *(words.parameter(column, at) for at in order)]
    text = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(first)}{' ---: |' * len(order)}"]
    for (rest, _, _, who, source), cells in sorted(rows.items()):
        name = f"**{who}**" if who.split(",")[0] == OURS else who
        first = ([rest] if with_rest else []) + [name] + ([f"`{source}`"] if with_source else [])
        text.append(f"| {' | '.join([*first, *(cell(cells[at]) if at in cells else '' for at in order)])} |")
    if any("ratio" in line and line.get("against") == RAW for line in lines):
        text += ["", "In brackets: the median ratio to the raw calls, in pairs of neighbouring batches."]
    return "\n".join(text)


def cell(line):
    against = f" ({line['ratio']:.4f})" if "ratio" in line and line.get("against") == RAW else ""
    return words.value(line) + against


def long(lines):
    """A row for each line."""
    timed = any("low" in line for line in lines)
    compared = any("ratio" in line for line in lines)
    heads = ["", "who", "median" if timed else "", *(["quartiles"] if timed else []), *(["ratio"] if compared else [])]
    text = [f"| {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * (len(heads) - 2)}"]
    for line in sorted(
        lines, key=lambda line: (in_words_first(line["parameters"]), line["who"] != RAW, line["who"] != OURS)
    ):
        who = f"**{words.who(line)}**" if line["who"] == OURS else words.who(line)
        row = [words.workload(line["parameters"]), who, words.value(line)]
        if timed:
            row.append(f"{words.value(line, line['low'])} – {words.value(line, line['high'])}" if "low" in line else "")
        if compared:
            row.append(ratios(line))
        text.append(f"| {' | '.join(row)} |")
    return "\n".join(text)


def ratios(line):
    by_setting = line.get("ratios")
    if by_setting and len(by_setting) > 1:
        return ", ".join(f"{ratio:.4f} of {setting}" for setting, ratio in sorted(by_setting.items()))
    return f"{line['ratio']:.4f} of {line['against']}" if "ratio" in line else ""
