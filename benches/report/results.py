"""Result lines: read, put in order, looked up, written as JSON and CSV."""

import csv
import json

# In the order of the page.
BENCHES = [
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
    "ffi_overhead",
    "instructions",
    "driver_calls",
    "sizes",
]
# What a process does first, in order.
STEPS = ["load", "resolve", "init", "context", "stream and pool", "first allocation", "all"]
OURS = "cupool"
RAW = "raw"
# This crate's own way, by whichever name; pools keep their memory as they come.
AS_IT_COMES = ("as it comes", "kept")


class Results:
    def __init__(self, machine, lines):
        self.machine, self.lines = machine, lines

    def of(self, bench, **parameters):
        """The lines with a value of a bench, and of those parameters."""
        return [
            line
            for line in self.lines
            if line["bench"] == bench
            and "value" in line
            and all(line["parameters"].get(name) == value for name, value in parameters.items())
        ]

    def series(self):
        return [line for line in self.lines if "series" in line]

    def workloads(self, bench):
        """Each set of parameters of a bench, once, in order."""
        found = {key(line["parameters"]): line["parameters"] for line in self.of(bench)}
        return [found[at] for at in sorted(found)]

    def find(self, bench, parameters, who, settings=None, source=None):
        """The line of exactly these parameters; of several settings the first that there is."""
        lines = [line for line in self.of(bench) if line["parameters"] == parameters and line["who"] == who]
        if source is not None:
            lines = [line for line in lines if line.get("source", "") == source]
        if settings is None:
            return lines[0] if lines else None
        for setting in settings:
            for line in lines:
                if line["setting"] == setting:
                    return line
        return None

    def sources(self, bench):
        """The programs that measured a bench: those that measured most of whom there are first."""
        whom = {}
        for line in self.of(bench):
            whom.setdefault(line.get("source", ""), set()).add((line["who"], line["setting"]))
        return sorted(whom, key=lambda source: (-len(whom[source]), source))

    def ratio(self, bench, parameters, ours, theirs):
        """How `ours` compares with `theirs`, both (who, settings), and how that was found out: in pairs of neighbouring
        batches, from the medians of one program, or from those of two; the highest where several programs found it out.
        None if one of them was not measured."""
        pairs, medians = [], []
        for source in self.sources(bench):
            one = self.find(bench, parameters, *ours, source=source)
            other = self.find(bench, parameters, *theirs, source=source)
            if one and other:
                paired = in_pairs(one, other)
                (pairs if paired else medians).append(paired or one["value"] / other["value"])
        if pairs:
            return max(pairs), "pairs"
        if medians:
            return max(medians), "medians"
        one, other = self.find(bench, parameters, *ours), self.find(bench, parameters, *theirs)
        return (one["value"] / other["value"], "medians of two programs") if one and other else None


def in_pairs(one, other):
    for line, against, power in [(one, other, 1), (other, one, -1)]:
        if line.get("against") != against["who"]:
            continue
        by_setting = line.get("ratios")
        ratio = by_setting.get(against["setting"]) if by_setting else line.get("ratio")
        if ratio:
            return ratio**power
    return None


def key(parameters):
    """Sorts numbers as numbers."""
    return tuple(
        (name, (0, value, "") if isinstance(value, (int, float)) else (1, 0, str(value)))
        for name, value in sorted(parameters.items())
    )


def in_steps(what):
    """Sorts what a process does first as it does it, and all else behind."""
    return STEPS.index(what) if what in STEPS else len(STEPS), isinstance(what, str), what


def in_words_first(parameters):
    """Sorts by what is done, then by how much of it."""
    return key({name: value for name, value in parameters.items() if isinstance(value, str)}), key(parameters)


def read(paths):
    """Reads files of result lines, or a results.json. A later line replaces an earlier one of the same thing."""
    machine, lines = {}, {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for number, line in given(text, path):
            try:
                bench = line["bench"]
                if bench == "machine":
                    merge(machine, line["parameters"])
                    continue
                if bench not in BENCHES:
                    raise ValueError(f"no bench is named {bench!r}")
                line.setdefault("setting", "as it comes")
                line.setdefault("parameters", {})
                if "series" not in line and not isinstance(line["value"], (int, float)):
                    raise ValueError("the value is no number")
                lines[identity(line)] = line
            except (KeyError, TypeError, ValueError) as error:
                raise SystemExit(f"{path}:{number}: {type(error).__name__}: {error}") from error
    # Drawn and compared in the same order whatever order they came in.
    return Results(machine, [lines[at] for at in sorted(lines)])


def given(text, path):
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and "results" in whole:
        yield 1, {"bench": "machine", "parameters": whole["machine"]}
        yield from ((1, line) for line in whole["results"])
        return
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise SystemExit(f"{path}:{number}: {error}") from error


def merge(machine, more):
    for name, value in more.items():
        if isinstance(value, dict):
            merge(machine.setdefault(name, {}), value)
        else:
            machine[name] = value


def identity(line):
    return (
        BENCHES.index(line["bench"]),
        key(line["parameters"]),
        line["who"],
        line["setting"],
        line.get("source", ""),
        "series" in line,
    )


def write_json(results, path):
    compact = {"ensure_ascii": False, "sort_keys": True}
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"machine": ' + json.dumps(results.machine, **compact) + ',\n"results": [\n')
        file.write(",\n".join(json.dumps(line, **compact) for line in results.lines))
        file.write("\n]}\n")


def write_csv(results, path):
    columns = ["bench", "who", "setting", "parameters", "unit", "value", "low", "high", "against", "ratio", "source"]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for line in results.lines:
            if "value" in line:
                parameters = "; ".join(f"{name}={value}" for name, value in sorted(line["parameters"].items()))
                writer.writerow([parameters if column == "parameters" else line.get(column, "") for column in columns])
