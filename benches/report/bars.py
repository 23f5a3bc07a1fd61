"""What is promised, and whether the results keep it. What was not measured is not kept."""

from dataclasses import dataclass

import words
from results import AS_IT_COMES, OURS, RAW

NOT_MEASURED = "not measured"
# Of the ways in which the raw calls were made, the ones that promise what ours does, where there are several.
SAME_PROMISE = ("plain and wait", "plain and record")


@dataclass
class Bar:
    """What one bar says, and the figure that was found; None if none was."""

    text: str
    limit: float
    measured: float | None
    unit: str = "×"
    where: str = ""
    how: str = ""

    @property
    def verdict(self):
        if self.measured is None:
            return NOT_MEASURED
        return "pass" if self.measured <= self.limit else "**fail**"

    @property
    def figure(self):
        return NOT_MEASURED if self.measured is None else figure(self.measured, self.unit)

    @property
    def bound(self):
        return f"≤ {self.limit:.2f}" if self.unit == "×" else f"< {words.tick(self.limit)}"


def figure(number, unit):
    return words.time(number) if unit == "ns" else f"{number:.3f}" if number >= 0.1 else f"{number:.4f}"


def all_bars(results):
    ours, cudarc = (OURS, AS_IT_COMES), "cudarc"
    bars = [
        worst(results, bench, f"{text}, beside the raw calls", 1.01, ours_and_raw)
        for bench, text in [
            ("alloc_free", "Allocate and free"),
            ("alloc_free_sync", "Allocate, free and synchronise"),
        ]
    ]
    bars += [
        worst(
            results,
            "alloc_free",
            "Allocate and free, beside cudarc with memory kept",
            0.60,
            lambda *_: [(ours, (cudarc, ("kept",)))],
        ),
        worst(
            results,
            "alloc_free_sync",
            "Allocate, free and synchronise, beside cudarc as it comes",
            0.03,
            lambda *_: [(ours, (cudarc, ("as it comes",)))],
        ),
        worst(
            results,
            "alloc_free",
            "Allocate and free, beside RMM's `device_buffer` from `cuda_async`",
            0.80,
            lambda *_: [(ours, ("rmm", ("cuda_async, device_buffer",)))],
        ),
    ]
    between_buffers = lambda parameters: parameters.get("direction") == "device to device"
    in_order = lambda parameters: parameters.get("what") in ("record", "wait")
    bars += [
        worst(results, bench, f"{text}, beside the {calls}", limit, ours_and_raw, kept)
        for bench, text, calls, limit, kept in [
            ("copies", "Copies between buffers", "raw calls", 1.02, between_buffers),
            ("copies", "Copies with host memory", "raw calls", 1.02, lambda of: not between_buffers(of)),
            ("fills", "Fills", "raw calls", 1.02, None),
            ("events", "Records and waits of streams", "raw calls", 1.02, in_order),
            ("events", "Questions, and waits of the host", "raw calls", 1.02, lambda of: not in_order(of)),
            ("cross_stream", "Between streams", "records and waits it is made of", 1.03, None),
        ]
    ]
    return [*bars, load_and_init(results), entry_points(results)]


def ours_and_raw(results, bench, parameters):
    """Each setting of ours, with the raw calls in the setting that is the same."""
    settings = [
        line["setting"] for line in results.of(bench) if line["parameters"] == parameters and line["who"] == OURS
    ]
    for setting in dict.fromkeys(settings):
        # Threshold 0 is one thing and memory that is kept another, whoever does it.
        raw = raw_settings(results, bench, parameters, setting)
        if raw:
            yield (OURS, (setting,)), (RAW, raw)


def raw_settings(results, bench, parameters, setting):
    there = [line["setting"] for line in results.of(bench) if line["parameters"] == parameters and line["who"] == RAW]
    same = AS_IT_COMES if setting in AS_IT_COMES else (setting,)
    for wanted in (SAME_PROMISE, same):
        if found := tuple(name for name in wanted if name in there):
            return found
    # One way that has a name of its own, such as the calls that ours is made of.
    others = tuple(dict.fromkeys(name for name in there if not name.startswith("threshold")))
    return others if len(others) == 1 and not setting.startswith("threshold") else ()


def worst(results, bench, text, limit, pairs, kept=None):
    """The highest ratio over all workloads of a bench, or those that are kept."""
    found = []
    for parameters in filter(kept or (lambda _: True), results.workloads(bench)):
        for ours, theirs in pairs(results, bench, parameters):
            if compared := results.ratio(bench, parameters, ours, theirs):
                found.append((*compared, parameters, ours[1][0]))
    if not found:
        return Bar(text, limit, None)
    ratio, how, parameters, setting = max(found, key=lambda item: item[0])
    where = words.workload(parameters) + ("" if setting in AS_IT_COMES else f", {setting}")
    return Bar(text, limit, ratio, where=f"{where}; the highest of {len(found)}" if len(found) > 1 else where, how=how)


def load_and_init(results):
    text, limit = "Loading the driver and `cuInit`, beside a C program", 1.05
    sums = []
    for who in [OURS, RAW]:
        parts = [results.find("first_use", {"what": what}, who) for what in ("load", "init")]
        if not all(parts):
            return Bar(text, limit, None)
        sums.append(sum(part["value"] for part in parts))
    where = f"{words.time(sums[0])}, the C program {words.time(sums[1])}"
    return Bar(text, limit, sums[0] / sums[1], where=where, how="medians")


def entry_points(results):
    text, limit = "Finding all entry points", 1e6
    lines = [
        line
        for line in results.of("first_use")
        if line["who"] == OURS and str(line["parameters"].get("what", "")).startswith("resol")
    ]
    slowest = max(lines, key=lambda line: line["value"], default=None)
    return Bar(
        text,
        limit,
        slowest and slowest["value"],
        unit="ns",
        where=words.workload(slowest["parameters"]) if slowest else "",
    )


def where_others_are_faster(results, benches):
    """(bench, our line, their line, ratio) for each workload where somebody's median is below ours."""
    found = []
    for bench in benches:
        for theirs in results.of(bench):
            if theirs["who"] in (OURS, RAW) or theirs["unit"] not in ("ns", "bytes"):
                continue
            source = theirs.get("source", "")
            ours = results.find(bench, theirs["parameters"], OURS, AS_IT_COMES, source) or results.find(
                bench, theirs["parameters"], OURS, AS_IT_COMES
            )
            if ours and theirs["value"] < ours["value"]:
                found.append((bench, ours, theirs, theirs["value"] / ours["value"]))
    return found
