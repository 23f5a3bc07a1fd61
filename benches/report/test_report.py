"""What the page says, of made-up results. `python3 -m unittest discover benches/report`; no need for matplotlib."""

import json
import os
import tempfile
import unittest

import bars
import page
import results
import words


def line(bench, who, value, setting="as it comes", ratio=None, unit="ns", **parameters):
    made = {"bench": bench, "who": who, "setting": setting, "parameters": parameters, "unit": unit, "value": value}
    return made | ({"against": "raw", "ratio": ratio} if ratio else {})


def read(*lines):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lines")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(json.dumps(made) for made in lines))
        return results.read([path])


def verdicts(found):
    return {bar.text: bar.verdict for bar in bars.all_bars(found)}


class Bars(unittest.TestCase):
    def test_without_results_no_bar_is_kept(self):
        self.assertEqual(set(verdicts(read()).values()), {bars.NOT_MEASURED})

    def test_the_worst_size_decides(self):
        good = [
            line("alloc_free", "raw", 100, "kept", bytes=10),
            line("alloc_free", "cupool", 100, ratio=1.01, bytes=10),
        ]
        bad = [
            line("alloc_free", "raw", 100, "kept", bytes=20),
            line("alloc_free", "cupool", 100, ratio=1.0101, bytes=20),
        ]
        text = "Allocate and free, beside the raw calls"
        self.assertEqual(verdicts(read(*good))[text], "pass")
        self.assertEqual(verdicts(read(*good, *bad))[text], "**fail**")

    def test_pairs_count_for_more_than_medians(self):
        found = read(line("fills", "raw", 100, "plain", bytes=1), line("fills", "cupool", 150, ratio=1.01, bytes=1))
        self.assertEqual(verdicts(found)["Fills, beside the raw calls"], "pass")
        found = read(line("fills", "raw", 100, "plain", bytes=1), line("fills", "cupool", 150, bytes=1))
        self.assertEqual(verdicts(found)["Fills, beside the raw calls"], "**fail**")

    def test_of_several_programs_the_worst_decides(self):
        lines = []
        for source, ratio in [("a.rs", 1.0), ("b.rs", 1.5)]:
            for who in ("raw", "cupool"):
                made = line("fills", who, 100, "plain" if who == "raw" else "as it comes", ratio=ratio, bytes=1)
                lines.append(made | {"source": source})
        self.assertEqual(verdicts(read(*lines))["Fills, beside the raw calls"], "**fail**")

    def test_a_threshold_of_0_is_compared_with_a_threshold_of_0(self):
        found = read(
            line("alloc_free_sync", "raw", 10, "kept", bytes=1),
            line("alloc_free_sync", "raw", 100, "threshold 0", bytes=1),
            line("alloc_free_sync", "cupool", 100, "threshold 0", bytes=1),
        )
        self.assertEqual(verdicts(found)["Allocate, free and synchronise, beside the raw calls"], "pass")

    def test_host_copies_are_compared_with_what_promises_the_same(self):
        ours = line("copies", "cupool", 100, bytes=1)
        ours |= {"against": "raw", "ratio": 3, "ratios": {"plain": 3, "plain and wait": 0.9}}
        raw = [line("copies", "raw", 33, "plain", bytes=1), line("copies", "raw", 111, "plain and wait", bytes=1)]
        self.assertEqual(verdicts(read(ours, *raw))["Copies with host memory, beside the raw calls"], "pass")

    def test_one_of_two_parts_is_not_measured(self):
        load = [line("first_use", who, 1, what="load") for who in ("raw", "cupool")]
        init = [line("first_use", who, 1, what="init") for who in ("raw", "cupool")]
        text = "Loading the driver and `cuInit`, beside a C program"
        self.assertEqual(verdicts(read(*load, *init[:1]))[text], bars.NOT_MEASURED)
        self.assertEqual(verdicts(read(*load, *init))[text], "pass")


class Others(unittest.TestCase):
    def test_all_who_are_faster_are_named(self):
        found = read(
            line("alloc_free", "raw", 90, "kept", bytes=10),
            line("alloc_free", "cupool", 100, bytes=10),
            line("alloc_free", "rmm", 50, "pool", bytes=10),
            line("alloc_free", "cudarc", 200, bytes=10),
        )
        text = page.faster(found)
        self.assertIn("rmm, pool | 10 B: 0.500", text)
        self.assertNotIn("cudarc", text)
        self.assertNotIn("raw", text)

    def test_nobody_measured_is_not_nobody_faster(self):
        self.assertIn("No other was measured", page.faster(read(line("alloc_free", "cupool", 100, bytes=10))))


class Lines(unittest.TestCase):
    def test_a_later_line_replaces_an_earlier_one_and_machines_are_merged(self):
        found = read(
            {"bench": "machine", "parameters": {"gpu": "A", "versions": {"a": "1"}}},
            line("fills", "raw", 1, bytes=1),
            line("fills", "raw", 2, bytes=1),
            {"bench": "machine", "parameters": {"gpu": "B", "versions": {"b": "2"}}},
        )
        self.assertEqual([made["value"] for made in found.lines], [2])
        self.assertEqual(found.machine, {"gpu": "B", "versions": {"a": "1", "b": "2"}})

    def test_what_was_written_is_read_again(self):
        found = read(line("fills", "raw", 1, bytes=1), line("fills", "cupool", 2, ratio=2, bytes=1))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.json")
            results.write_json(found, path)
            self.assertEqual(results.read([path]).lines, found.lines)

    def test_what_is_no_result_line_is_refused(self):
        for wrong in [{"bench": "fils"}, {"bench": "fills", "who": "raw"}, line("fills", "raw", "1")]:
            with self.assertRaises(SystemExit):
                read(wrong)

    def test_values_have_three_digits_and_a_unit(self):
        written = [words.time(ns) for ns in (1.934, 999.4, 999.6, 1250, 97862, 2.1e6, 3e9)]
        self.assertEqual(written, ["1.93 ns", "999 ns", "1.00 µs", "1.25 µs", "97.9 µs", "2.10 ms", "3.00 s"])


if __name__ == "__main__":
    unittest.main()
