"""The plots, each of one question."""

import os
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy
from matplotlib.ticker import FuncFormatter, MaxNLocator

import bars
import style
import words
from results import AS_IT_COMES, OURS, RAW, in_steps, in_words_first, key


@dataclass
class Plot:
    bench: str
    file: str
    says: str


def draw(results, folder, suffix=".svg"):
    """Draws all that there is data for."""
    looks = style.Looks(results.lines)
    drawn = []

    def add(bench, name, says, figure):
        if figure is not None:
            style.save(figure, os.path.join(folder, name + suffix))
            drawn.append(Plot(bench, name + suffix, says))

    for bench, says in [
        ("alloc_free", "Time of one allocation and free"),
        ("alloc_free_sync", "Time of one allocation, free and synchronisation"),
    ]:
        add(bench, bench, says, of_one_size(results, bench, says))
        add(bench, f"{bench}_sizes", f"{says}, by size", by_size(results, bench, says, looks))
    add("churn", "churn", "Time of a free and an allocation among many buffers that live", churn(results))
    add("threads", "threads", "Time of an allocation and free, by number of threads", threads(results, looks))
    add("trace_replay", "traces", "Reserved and live memory over recorded programs", traces(results, looks))
    add("trace_replay", "trace_time", "Time per event of recorded programs", trace_time(results))
    add("copies", "ratios", "Copies, fills, events and fences beside the raw calls", ratios(results))
    add("first_use", "first_use", "What a fresh process takes", first_use(results))
    return drawn


# Bars


def bar_panels(panels, width=10.0):
    """Horizontal bars in panels one below the other. `panels` are (title, lines)."""
    panels = [(title, lines) for title, lines in panels if lines]
    if not panels:
        return None
    # In inches, so that all bars are alike: for each panel a title, its bars, and the scale below.
    above, below = 0.8, 0.4
    height = sum(0.34 * len(lines) + above + below for _, lines in panels)
    figure = plt.figure(figsize=(width, height))
    top = height
    for title, lines in panels:
        tall = 0.34 * len(lines)
        bars_in(figure.add_axes((0.24, (top - above - tall) / height, 0.74, tall / height)), title, lines)
        top -= above + tall + below
    return figure


def bars_in(axis, title, lines):
    lines = sorted(lines, key=lambda line: (line["value"], line["who"] != RAW, line["who"] != OURS, line["setting"]))
    values = [line["value"] for line in lines]
    log = max(values) > 25 * min(values)
    colours = [
        style.INK if line["who"] == RAW else style.BLUE if line["who"] == OURS else style.OTHERS_BAR for line in lines
    ]
    places = range(len(lines))
    # Logarithmic bars begin a decade's half below the shortest.
    left = min(values) / 3 if log else 0
    axis.barh(places, [value - left for value in values], left=left, height=0.66, color=colours)
    for place, line, value in zip(places, lines, values):
        high = line.get("high", value)
        if "low" in line:
            axis.plot([line["low"], high], [place, place], color=style.MUTED, linewidth=1.3, solid_capstyle="butt")
        axis.annotate(
            words.value(line),
            (max(high, value), place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontweight="bold" if line["who"] == OURS else "normal",
            fontsize=10.5,
            bbox={"facecolor": style.CARD, "edgecolor": "none", "pad": 0.8},
        )
    floor = min((line["value"] for line in lines if line["who"] == RAW), default=None)
    if floor is not None:
        axis.axvline(floor, color=style.INK, linewidth=1.1, linestyle=(0, (4, 3)), zorder=0.5)
        axis.annotate(
            "raw floor",
            (floor, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, 1),
            textcoords="offset points",
            fontsize=9.5,
            color=style.MUTED,
            va="bottom",
        )
    axis.set_yticks(list(places), [words.who(line) for line in lines])
    for label, line in zip(axis.get_yticklabels(), lines):
        if line["who"] == OURS:
            label.set(color=style.BLUE, fontweight="bold")
    axis.set_ylim(len(lines) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
    axis.spines["left"].set_visible(False)
    if log:
        axis.set_xscale("log")
        axis.set_xlim(left, max(values) * (max(values) / left) ** 0.16)
    else:
        axis.set_xlim(0, max(values) * 1.16)
        axis.xaxis.set_major_locator(MaxNLocator(6))
    if lines[0]["unit"] == "ns":
        style.times_on(axis.xaxis, log)
    axis.grid(axis="x", linewidth=0.8)
    axis.set_title(title + (", logarithmic scale" if log else ""), pad=20 if floor is not None else 10)


def once_each(results, bench, **parameters):
    """One line of each way; where several programs measured it, of the one that measured most."""
    found = {}
    for source in results.sources(bench):
        for line in results.of(bench, **parameters):
            if line.get("source", "") == source:
                found.setdefault((line["who"], line["setting"], key(line["parameters"])), line)
    return list(found.values())


def of_one_size(results, bench, says):
    """The size that most have measured, the smallest of those."""
    count = {}
    for line in results.of(bench):
        count.setdefault(line["parameters"].get("bytes"), set()).add((line["who"], line["setting"]))
    sizes = sorted((bytes for bytes in count if bytes is not None), key=lambda bytes: (-len(count[bytes]), bytes))
    if not sizes:
        return None
    return bar_panels([(f"{says}, {words.size(sizes[0])}", once_each(results, bench, bytes=sizes[0]))])


def churn(results):
    panels = [
        (f"Time of a free and an allocation, {words.workload(of)}", once_each(results, "churn", **of))
        for of in results.workloads("churn")
    ]
    return bar_panels(panels)


def first_use(results):
    whats = {line["parameters"]["what"] for line in results.of("first_use")}
    whats = sorted(whats, key=in_steps)
    return bar_panels([(f"A fresh process: {what}", once_each(results, "first_use", what=what)) for what in whats])


def trace_time(results):
    names = dict.fromkeys(line["parameters"]["trace"] for line in results.of("trace_replay", what="time per event"))
    return bar_panels(
        [
            (f"Time per event: {name}", once_each(results, "trace_replay", what="time per event", trace=name))
            for name in sorted(names)
        ]
    )


# Lines


def by_size(results, bench, says, looks):
    lines = [line for line in once_each(results, bench) if "bytes" in line["parameters"]]
    if len({line["parameters"]["bytes"] for line in lines}) < 3:
        return None
    return line_panels([(f"{says}, by size", lines)], "bytes", words.size, looks)


def threads(results, looks):
    titles = {"shared": "Time per pair, threads that share a pool", "own": "Time per pair, a pool for each thread"}
    panels = [(title, once_each(results, "threads", pools=pools)) for pools, title in titles.items()]
    return line_panels([panel for panel in panels if panel[1]], "threads", "{:,}".format, looks)


def line_panels(panels, parameter, name, looks):
    """Lines on two logarithmic axes in panels one below the other, each line named at its end."""
    if not panels:
        return None
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(9, 5.2 * len(panels)), sharey=True, squeeze=False, gridspec_kw={"hspace": 0.32}
    )
    names = []
    for axis, (title, lines) in zip(axes[:, 0], panels):
        curves = {}
        for line in lines:
            at = line["parameters"][parameter]
            curves.setdefault((line["who"], line["setting"]), {})[at] = line
        ends = []
        for curve in curves.values():
            xs = sorted(curve)
            ys = [curve[x]["value"] for x in xs]
            any_line = curve[xs[-1]]
            axis.plot(xs, ys, **looks.line(any_line))
            ends.append((xs[-1], ys[-1], any_line))
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        xs = sorted({line["parameters"][parameter] for line in lines})
        axis.set_xticks(xs, [name(x) for x in xs])
        axis.minorticks_off()
        axis.grid(axis="y", linewidth=0.8)
        axis.tick_params(axis="y", labelleft=True)
        axis.set_title(f"{title}, logarithmic scales")
        axis.set_xlabel({"bytes": "bytes of each allocation"}.get(parameter, parameter))
        axis.margins(x=0.03, y=0.08)
        names.append((axis, ends))
    for axis, ends in names:
        style.times_on(axis.yaxis, True)
        name_ends(axis, ends, looks)
    return figure


def name_ends(axis, ends, looks):
    """Names lines beside their ends, moved apart where they would cover each other."""
    low, high = (numpy.log10(limit) for limit in axis.get_ylim())
    height = axis.figure.get_figheight() * axis.get_position().height * 72
    apart = 14.5 / height
    ends = sorted(ends, key=lambda end: end[1])
    wanted = [(numpy.log10(y) - low) / (high - low) for _, y, _ in ends]
    for (x, y, line), place in zip(ends, moved_apart(wanted, apart)):
        look = looks.line(line)
        axis.annotate(
            f"{words.who(line)}, {words.value(line)}",
            (x, y),
            xycoords="data",
            xytext=(1.035, place),
            textcoords="axes fraction",
            va="center",
            fontsize=10,
            color=look["color"],
            fontweight="bold" if line["who"] == OURS else "normal",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": look["color"],
                "linewidth": 0.7,
                "alpha": 0.6,
                "shrinkA": 1,
                "shrinkB": 3,
                "relpos": (0, 0.5),
            },
        )


def moved_apart(wanted, apart):
    """Places in order, at least so far apart, as near to those wanted as blocks of them allow."""
    blocks = []
    for place in wanted:
        blocks.append([place, 1])
        while len(blocks) > 1 and blocks[-1][0] - blocks[-2][0] < apart * (blocks[-1][1] + blocks[-2][1]) / 2:
            (a, n), (b, m) = blocks[-2], blocks[-1]
            blocks[-2:] = [[(a * n + b * m) / (n + m), n + m]]
    return [middle + apart * (at - (count - 1) / 2) for middle, count in blocks for at in range(count)]


# Memory over time


def traces(results, looks):
    """Live memory as an area and what each allocator has reserved as lines, a panel for each program."""
    series = results.series()
    names = sorted({line["parameters"]["trace"] for line in series})
    if not names:
        return None
    columns = 2 if len(names) > 1 else 1
    rows = -(-len(names) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(6.4 * columns, 3.4 * rows), squeeze=False, gridspec_kw={"hspace": 0.48, "wspace": 0.2}
    )
    shown = {}
    for axis, name in zip(axes.flat, names):
        of_name = [line for line in series if line["parameters"]["trace"] == name]
        of_name.sort(key=lambda line: (line["who"] == OURS, line["who"], line["setting"]))
        most = max(max(line["series"]["reserved"] + line["series"]["live"]) for line in of_name)
        unit, scale = ("GiB", 1 << 30) if most >= 1 << 30 else ("MiB", 1 << 20)
        live = of_name[-1]["series"]
        area = axis.fill_between(
            live["event"], numpy.array(live["live"]) / scale, step="post", color="#d9dee7", linewidth=0
        )
        shown["live memory"] = area
        for line in of_name:
            look = looks.line(line) | {"marker": None}
            (drawn,) = axis.step(
                line["series"]["event"], numpy.array(line["series"]["reserved"]) / scale, where="post", **look
            )
            shown[words.who(line)] = drawn
        axis.set_title(f"{name}: memory reserved, {unit}")
        axis.set_ylim(0, most / scale * 1.08)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axis.xaxis.set_major_locator(MaxNLocator(5))
        axis.set_xlabel("event")
        axis.margins(x=0.01)
        axis.grid(axis="y", linewidth=0.8)
    spare = list(axes.flat)[len(names) :]
    for axis in spare:
        axis.set_axis_off()
    order = sorted(
        shown, key=lambda name: (name == "live memory", not name.startswith(OURS), not name.startswith(RAW), name)
    )
    handles = [shown[name] for name in order]
    if spare:
        spare[-1].legend(handles, order, loc="center left", fontsize=11)
    else:
        figure.legend(
            handles, order, loc="upper center", bbox_to_anchor=(0.5, 0.04), ncols=min(4, len(order)), fontsize=11
        )
    return figure


# Ratios

# What goes without saying.
PLAIN = ("plain", *AS_IT_COMES)


def ratios(results):
    """Each operation's ratio to the raw calls as a dot, beside the bar that it must keep; an arrow where it lies beyond
    the axis."""
    rows = []
    for bench, limit in [("copies", 1.02), ("fills", 1.02), ("events", 1.02), ("cross_stream", 1.03)]:
        for parameters in results.workloads(bench):
            for ours, theirs in bars.ours_and_raw(results, bench, parameters):
                if compared := results.ratio(bench, parameters, ours, theirs):
                    rows.append(
                        (
                            bench,
                            words.workload(parameters),
                            theirs[1][0],
                            compared[0],
                            limit,
                            in_words_first(parameters),
                        )
                    )
    if not rows:
        return None
    order = {bench: at for at, bench in enumerate(["copies", "fills", "events", "cross_stream"])}
    rows.sort(key=lambda row: (order[row[0]], row[5]))
    names = {"copies": "copy", "fills": "fill", "events": "event", "cross_stream": "between streams"}
    low, high = 0.9, 1.1
    figure, axis = plt.subplots(figsize=(8.5, 0.31 * len(rows) + 1.2))
    for place, (_, _, _, ratio, limit, _) in enumerate(rows):
        kept = ratio <= limit
        shown = min(max(ratio, low), high)
        marker = "o" if ratio == shown else "<" if ratio < low else ">"
        axis.plot([1, shown], [place, place], color=style.GRID, linewidth=2, zorder=1)
        axis.plot(
            shown,
            place,
            marker=marker,
            markersize=8,
            color=style.BLUE if kept else style.VERMILLION,
            clip_on=False,
            zorder=4,
        )
        axis.plot([limit, limit], [place - 0.5, place + 0.5], color=style.VERMILLION, linewidth=1.6, zorder=2)
        axis.annotate(
            f"{ratio:.3f}" + ("" if kept else "  above"),
            (1.02, place),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=10,
            color=style.INK if kept else style.VERMILLION,
            fontweight="normal" if kept else "bold",
            annotation_clip=False,
        )
    axis.axvline(1, color=style.INK, linewidth=1.2, zorder=2)
    for place in range(1, len(rows)):
        if rows[place][0] != rows[place - 1][0]:
            axis.axhline(place - 0.5, color=style.MUTED, linewidth=0.8)
    axis.set_yticks(
        range(len(rows)),
        [f"{names[bench]}: {what}{'' if raw in PLAIN else f'   (raw: {raw})'}" for bench, what, raw, *_ in rows],
        fontsize=10,
    )
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlim(low, high)
    axis.tick_params(axis="y", length=0, pad=12)
    axis.spines["left"].set_visible(False)
    axis.grid(axis="x", linewidth=0.8)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2f}"))
    axis.set_xticks([0.9, 0.95, 1, 1.05, 1.1])
    axis.set_xlabel("time, ours by raw; the line in colour is the bar (1.02, between streams 1.03)")
    axis.set_title("Time beside the raw calls, ratio (less is better)")
    return figure
