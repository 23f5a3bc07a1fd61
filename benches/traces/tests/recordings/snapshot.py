"""Writes the snapshots beside it: what `torch.cuda.memory._dump_snapshot` pickles, cut down to a few events."""

import pickle
from pathlib import Path

frames = [{"filename": "train.py", "line": 12, "name": "forward"}]
begin = 0x7F3C5A000000


def entry(action, addr, size, stream, time_us):
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": time_us, "frames": frames}


side = 0x5588D0E0
history = [
    entry("free_requested", begin + 0x900000, 2048, 0, 100),  # allocated before recording began
    entry("free_completed", begin + 0x900000, 2048, 0, 100),
    entry("segment_alloc", begin, 2097152, 0, 101),
    entry("alloc", begin, 512, 0, 102),
    entry("alloc", begin + 0x200000, 4194304, side, 140),
    entry("free_requested", begin, 512, 0, 150),
    entry("free_completed", begin, 512, 0, 150),
    {"action": "oom", "size": 85899345920, "device_free": 1048576, "stream": 0, "time_us": 160, "frames": frames},
    entry("alloc", begin, 1000, 0, 170),
    entry("free_requested", begin + 0x200000, 4194304, side, 180),
    entry("snapshot", 0, 0, 0, 190),
]
other = [entry("alloc", begin, 64, 0, 200)]
block = {"address": begin, "size": 512, "requested_size": 512, "state": "active_allocated", "frames": frames}
segment = {
    "device": 1, "address": begin, "total_size": 2097152, "allocated_size": 512, "active_size": 512,
    "requested_size": 512, "stream": 0, "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": False,
    "frames": frames, "blocks": [block],
}
snapshot = {
    "segments": [segment],
    "device_traces": [[], history, [], other],
    "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "expandable_segments": False},
    "external_annotations": [],
}
for name, protocol in (("snapshot", 4), ("snapshot-2", 2), ("snapshot-5", 5)):
    Path(__file__).with_name(f"{name}.pickle").write_bytes(pickle.dumps(snapshot, protocol))
