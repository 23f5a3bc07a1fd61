"""How values and things are written, in tables and plots alike."""


def time(ns):
    """Three digits, and the unit that suits them."""
    for limit, unit, size in [(1e3, "ns", 1), (1e6, "µs", 1e3), (1e9, "ms", 1e6)]:
        if ns < limit * 0.9995:
            break
    else:
        unit, size = "s", 1e9
    return f"{digits(ns / size)} {unit}"


def tick(ns):
    """The same, as short as it is exact."""
    number, unit = time(ns).split()
    number = number.rstrip("0").rstrip(".") if "." in number else number
    return "0" if ns == 0 else f"{number} {unit}"


def size(number):
    for unit, of in [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)]:
        if number >= of:
            return f"{number // of if number % of == 0 else digits(number / of)} {unit}"
    return f"{number:g} B"


def digits(value, count=3):
    whole = len(str(int(abs(value))))
    return f"{value:,.{max(0, count - whole)}f}"


def value(line, number=None):
    number = line["value"] if number is None else number
    unit = line["unit"]
    if unit == "ns":
        return time(number)
    if unit == "bytes":
        return size(number)
    return f"{number:,.10g} {unit}"


def ratio(number):
    return f"{number:.3f}" if 0.1 <= number < 10 else f"{digits(number)}"


def parameter(name, number):
    if name == "bytes":
        return size(number)
    if name == "what":
        return str(number)
    if (name, number) == ("threads", 1):
        return "1 thread"
    if name in ("threads", "live"):
        return f"{number:,} {name}"
    if name == "pools":
        return {"shared": "one pool", "own": "a pool each"}.get(number, f"{number} pools")
    if name == "memory":
        return f"{number} memory"
    return str(number)


def workload(parameters):
    """The parameters in words, those in words first."""
    order = sorted(parameters.items(), key=lambda item: (isinstance(item[1], (int, float)), item[0]))
    return ", ".join(parameter(name, number) for name, number in order)


def who(line):
    """Who, and in which setting unless that is the way it comes."""
    return line["who"] if line["setting"] == "as it comes" else f"{line['who']}, {line['setting']}"
