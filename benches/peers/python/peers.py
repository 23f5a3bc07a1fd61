"""Allocators of Python packages: what an allocation and its release cost, as result lines and as a table.

peers.py [--quick]; lines go to the file that CUPOOL_BENCH_RECORD names. A package that is not there is said to be absent.
"""

import importlib.metadata
import json
import os
import statistics
import sys
import timeit

QUICK = "--quick" in sys.argv or os.environ.get("CUPOOL_BENCH_QUICK", "0") not in ("", "0")
BATCHES = 5 if QUICK else 21


def record(line):
    path = os.environ.get("CUPOOL_BENCH_RECORD")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            print(json.dumps(line), file=file)


def measure(who, setting, size, statement, names, drain, synchronise=False):
    timer = timeit.Timer(statement, globals=names)
    timer.timeit(100)
    drain()
    each = max(timer.timeit(10) / 10, 1e-7)
    count = max(1, min(2000, int(3e-3 / each)))
    values = []
    for _ in range(BATCHES):
        values.append(timer.timeit(count) / count * 1e9)
        drain()
    low, value, high = statistics.quantiles(values, n=4)
    bench = "alloc_free_sync" if synchronise else "alloc_free"
    print(f"{bench} {size} bytes, {who}, {setting}: {value:.0f} ns [{low:.0f} {high:.0f}]", flush=True)
    record({
        "bench": bench, "who": who, "setting": setting, "parameters": {"bytes": size}, "unit": "ns",
        "value": value, "low": low, "high": high, "source": "benches/peers/python",
    })


def cuda_core(size):
    from cuda.core import Device, DeviceMemoryResource, DeviceMemoryResourceOptions

    device = Device(0)
    device.set_current()
    stream = device.create_stream()
    resource = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions())
    names = {"resource": resource, "stream": stream, "size": size}
    statement = "buffer = resource.allocate(size, stream=stream); buffer.close(stream)"
    measure("cuda.core", "own pool", size, statement, names, stream.sync)
    measure("cuda.core", "own pool", size, statement + "; stream.sync()", names, stream.sync, synchronise=True)


def cupy(size):
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    stream.use()
    for setting, pool in [("caching pool", cupy.cuda.MemoryPool()), ("async pool", cupy.cuda.MemoryAsyncPool())]:
        names = {"pool": pool, "stream": stream, "size": size}
        measure("cupy", setting, size, "pool.malloc(size)", names, stream.synchronize)
        statement = "pool.malloc(size); stream.synchronize()"
        measure("cupy", setting, size, statement, names, stream.synchronize, synchronise=True)


def bindings(size):
    from cuda.bindings import runtime

    error, stream = runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking)
    assert error == runtime.cudaError_t.cudaSuccess, error
    drain = lambda: runtime.cudaStreamSynchronize(stream)
    names = {"runtime": runtime, "stream": stream, "size": size}
    statement = "_, address = runtime.cudaMallocAsync(size, stream); runtime.cudaFreeAsync(address, stream)"
    measure("cuda.bindings", "as it comes", size, statement, names, drain)
    statement += "; runtime.cudaStreamSynchronize(stream)"
    measure("cuda.bindings", "as it comes", size, statement, names, drain, synchronise=True)


def main():
    packages = [(cuda_core, "cuda-core", "cuda.core"), (cupy, "cupy-cuda13x", "cupy"), (bindings, "cuda-bindings", "cuda.bindings")]
    for run, package, who in packages:
        try:
            version = importlib.metadata.version(package)
            print(who, version)
            record({"bench": "machine", "parameters": {"versions": {who: version}}})
            for size in (10, 4 << 10, 1 << 20, 64 << 20):
                run(size)
        except Exception as error:  # A package that fails must not keep the others from being measured.
            print(f"absent: {who}: {type(error).__name__}: {error}")


main()
