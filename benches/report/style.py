"""How all plots look: a card that is light on any page, one colour for each of whom there is."""

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: E402

import words  # noqa: E402
from results import OURS, RAW  # noqa: E402

INK, MUTED, GRID, CARD = "#1f2430", "#59606e", "#dfe3ea", "#ffffff"
# Okabe and Ito's, which the colour-blind tell apart; their yellow is too light for lines.
BLUE, VERMILLION, GREEN, ORANGE, SKY, PURPLE = "#0072b2", "#d55e00", "#009e73", "#e69f00", "#56b4e9", "#cc79a7"
OF_KNOWN = {
    "cudarc": ORANGE,
    "rmm": GREEN,
    "torch": VERMILLION,
    "cupy": PURPLE,
    "cuda-core": SKY,
    "cuda.core": "#8c6d46",
    "cuda.bindings": "#7f7f7f",
}
OF_OTHERS = ["#4b0082", "#808000", "#a0522d", "#2f4f4f"]
DASHES = ["-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2))]
MARKERS = ["o", "s", "^", "D", "v", "P"]
OTHERS_BAR = "#b3bac6"

plt.rcParams.update(
    {
        # The same file from the same results.
        "svg.hashsalt": "cupool",
        # Letters as shapes: nobody needs the font.
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 11,
        "axes.titlesize": 12.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlepad": 10,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "text.color": INK,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "legend.frameon": False,
        "figure.facecolor": CARD,
        "axes.facecolor": CARD,
        "savefig.facecolor": CARD,
    }
)


def save(figure, path):
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight", pad_inches=0.25)
    plt.close(figure)


class Looks:
    """A colour for each of whom there is, the same in all plots; dashes and markers tell their settings apart."""

    def __init__(self, lines):
        self.colours = {OURS: BLUE, RAW: INK} | OF_KNOWN
        others = sorted({line["who"] for line in lines} - set(self.colours))
        self.colours |= {who: OF_OTHERS[at % len(OF_OTHERS)] for at, who in enumerate(others)}
        settings = {}
        for who, setting in sorted(
            {(line["who"], line["setting"]) for line in lines}, key=lambda of: (of[0], of[1] != "as it comes", of[1])
        ):
            settings.setdefault(who, []).append(setting)
        self.settings = settings

    def name(self, line):
        return self.colours[line["who"]]

    def line(self, line):
        at = self.settings[line["who"]].index(line["setting"])
        ours = line["who"] == OURS
        if line["who"] == RAW:
            # Thin and on top: it hides under ours otherwise.
            return {
                "color": INK,
                "linestyle": (0, (1.5, 2.5)),
                "marker": ".",
                "linewidth": 1.4,
                "markersize": 4,
                "zorder": 5,
            }
        return {
            "color": self.colours[line["who"]],
            "linestyle": DASHES[at % len(DASHES)],
            "marker": MARKERS[at % len(MARKERS)],
            "linewidth": 2.8 if ours else 1.7,
            "markersize": 6.5 if ours else 5,
            "zorder": 4 if ours else 3,
        }


def times_on(axis, log):
    if log:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=12))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(lambda value, _: words.tick(value)))
