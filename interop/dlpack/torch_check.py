#!/usr/bin/env python3
"""Checks that cupool's buffers and the tensors of PyTorch and CuPy are one another's memory.

    torch_check.py [--all] libcupool_dlpack_example.so

The library is built from the folder that this file lies in. Prints `ok` or `FAILED` for each check and closes with
`N passed, N failed, N skipped`. Without PyTorch or CuPy their checks are skipped, or, with --all, count as failed.
"""

import argparse
import ctypes
import gc
import sys
import threading
import traceback

NAN = float("nan")
KDL_CUDA = 2
LEGACY_DEFAULT_STREAM = 1

# --- The C functions -------------------------------------------------------------------------------------------------


def load(path):
    library = ctypes.CDLL(path)
    pointer, number, signed = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64
    for name, result, *arguments in [
        ("cupool_error", number, ctypes.c_char_p, number),
        ("cupool_open", pointer, ctypes.c_uint32),
        ("cupool_close", None, pointer),
        ("cupool_stream", number, pointer),
        ("cupool_matrix", pointer, pointer, number, number),
        ("cupool_address", ctypes.c_uint64, pointer),
        ("cupool_free", None, pointer),
        ("cupool_export", pointer, pointer, signed, ctypes.c_int),
        ("cupool_delete", None, pointer),
        ("cupool_take", ctypes.c_ssize_t, pointer, pointer, ctypes.POINTER(ctypes.c_float), number, ctypes.c_float),
        ("cupool_settle", signed, pointer),
        ("cupool_release_failures", ctypes.c_uint64),
    ]:
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


# --- Capsules --------------------------------------------------------------------------------------------------------

# Capsules keep these by their address.
NAME, USED = b"dltensor_versioned", b"used_dltensor_versioned"

api = ctypes.pythonapi
DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
api.PyCapsule_New.restype = ctypes.py_object
api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, DESTRUCTOR]
api.PyCapsule_GetPointer.restype = ctypes.c_void_p
api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.restype = ctypes.c_int
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.restype = ctypes.c_int
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]

# The same functions, for a capsule that is about to go: its reference count must not be touched.
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", api))
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", api))


class Session:
    """A device, with a stream and a pool of cupool's."""

    def __init__(self, library, device=0):
        self.library, self.device = library, device

        def destroy(capsule):
            # A consumer renames the capsule; what still has the first name nobody took.
            if _is_valid(capsule, NAME):
                library.cupool_delete(_get_pointer(capsule, NAME))

        self._destructor = DESTRUCTOR(destroy)
        self.handle = self.checked(library.cupool_open(device))

    def checked(self, result):
        if result is None or (isinstance(result, int) and result < 0):
            text = ctypes.create_string_buffer(1000)
            self.library.cupool_error(text, len(text) - 1)
            raise RuntimeError(text.value.decode())
        return result

    def close(self):
        if self.handle:
            self.library.cupool_close(self.handle)
            self.handle = None

    @property
    def stream(self):
        return self.library.cupool_stream(self.handle)

    def matrix(self, rows, columns, read_only=False):
        return Matrix(self, rows, columns, read_only)

    def take(self, producer, value=NAN):
        """The elements of another library's tensor, which are then set to `value` in place."""
        capsule = producer.__dlpack__(stream=self.stream, max_version=(1, 0))
        if not api.PyCapsule_IsValid(capsule, NAME):
            raise BufferError("the producer has made a capsule of another kind")
        tensor = api.PyCapsule_GetPointer(capsule, NAME)
        api.PyCapsule_SetName(capsule, USED)
        elements = (ctypes.c_float * 100_000)()
        count = self.library.cupool_take(self.handle, tensor, elements, len(elements), value)
        return elements[: self.checked(count)]

    def settle(self):
        """Waits for everything; returns the bytes in use."""
        return self.checked(self.library.cupool_settle(self.handle))


class Matrix:
    """A buffer of cupool's that follows Python's DLPack protocol: numbers from 0, row by row.

    Its memory is handed out, not shared: it can be exported once.
    """

    def __init__(self, session, rows, columns, read_only):
        self.session, self.read_only = session, read_only
        self.handle = session.checked(session.library.cupool_matrix(session.handle, rows, columns))

    @property
    def address(self):
        return self.session.library.cupool_address(self.handle)

    def __dlpack_device__(self):
        return (KDL_CUDA, self.session.device)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if max_version is None or max_version[0] < 1:
            raise BufferError("only DLPack 1 is spoken: ask for max_version=(1, 0)")
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("the memory is handed out where it is")
        if self.handle is None:
            raise BufferError("the memory has been handed out before")
        # The protocol's default is the legacy default stream.
        number = LEGACY_DEFAULT_STREAM if stream is None else stream
        handle, self.handle = self.handle, None
        session = self.session
        tensor = session.checked(session.library.cupool_export(handle, number, self.read_only))
        return api.PyCapsule_New(tensor, NAME, session._destructor)

    def __del__(self):
        if getattr(self, "handle", None) is not None:
            self.session.library.cupool_free(self.handle)


# --- Checks ----------------------------------------------------------------------------------------------------------


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def capsules_make_the_round_trip(session):
    matrix = session.matrix(3, 4)
    expect(matrix.__dlpack_device__() == (KDL_CUDA, session.device), "the device")
    expect(session.take(matrix) == [float(number) for number in range(12)], "the elements")
    expect(session.settle() == 0, "the memory is freed")


def a_capsule_that_nobody_takes_frees_its_memory(session):
    for stream in (None, 1, 2, -1, session.stream):
        capsule = session.matrix(3, 4).__dlpack__(stream=stream, max_version=(1, 1))
        expect(session.settle() > 0, "the capsule keeps the memory")
        del capsule
        gc.collect()
        expect(session.settle() == 0, "the memory is freed")
    session.matrix(3, 4)
    gc.collect()
    expect(session.settle() == 0, "so is a matrix that was never exported")


def what_cannot_be_done_is_an_error(session):
    matrix = session.matrix(2, 2)
    for arguments in ({}, {"max_version": (0, 8)}, {"max_version": (1, 0), "copy": True}):
        try:
            matrix.__dlpack__(**arguments)
        except BufferError:
            continue
        raise AssertionError(f"{arguments} is accepted")
    try:
        session.take(session.matrix(2, 2, read_only=True), value=1.0)
    except RuntimeError as error:
        expect("read-only" in str(error), str(error))
    else:
        raise AssertionError("a read-only tensor was written")
    try:
        matrix.__dlpack__(stream=0, max_version=(1, 0))
    except RuntimeError as error:
        expect("stream" in str(error), str(error))
    else:
        raise AssertionError("stream 0 is ambiguous, and accepted")
    expect(session.settle() == 0, "nothing is left")


def a_thousand_capsules_leave_nothing(session):
    for _ in range(1000):
        session.take(session.matrix(4, 4))
    expect(session.settle() == 0, "nothing is left")


class Torch:
    def __init__(self):
        import torch

        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        self.torch = torch
        torch.zeros(1, device="cuda")

    def read(self, session):
        torch, matrix = self.torch, session.matrix(30, 40)
        address = matrix.address
        tensor = torch.from_dlpack(matrix)
        expect(tensor.data_ptr() == address, "no copy")
        expect(tensor.shape == (30, 40) and tensor.dtype == torch.float32 and tensor.is_cuda, f"{tensor.shape}")
        expect(torch.equal(tensor.cpu(), torch.arange(1200.0).reshape(30, 40)), "the elements")
        tensor.mul_(2)
        expect(session.take(tensor) == [2.0 * number for number in range(1200)], "what PyTorch has written")
        del tensor
        self.settled(session)

    def written(self, session):
        torch = self.torch
        tensor = torch.arange(1000, dtype=torch.float32, device="cuda") + 1
        expect(session.take(tensor, value=7.0) == [number + 1.0 for number in range(1000)], "the elements")
        # What cupool enqueued is on its own stream.
        session.settle()
        expect(bool((tensor == 7).all()), "what cupool has written")
        expect(session.take(tensor.reshape(10, 100)[2]) == [7.0] * 100, "a row")
        try:
            session.take(tensor.reshape(10, 100).t())
        except RuntimeError as error:
            expect("contiguous" in str(error), str(error))
        else:
            raise AssertionError("a transposed tensor is not contiguous")
        try:
            session.take(tensor.to(torch.float64))
        except RuntimeError as error:
            expect("64 bits" in str(error), str(error))
        else:
            raise AssertionError("elements of another type")

    def other_streams(self, session):
        torch = self.torch
        stream = torch.cuda.Stream()
        for _ in range(100):
            with torch.cuda.stream(stream):
                # Few enough for every partial sum to be exact.
                tensor = torch.from_dlpack(session.matrix(50, 50))
                tensor.add_(1)
                total = tensor.sum()
                del tensor
            # The memory is handed out again at once, while the sum may have yet to run.
            other = session.matrix(50, 50)
            stream.synchronize()
            expect(total.item() == sum(range(2500)) + 2500, f"{total.item()}")
            del other
        self.settled(session)

    def any_order(self, session):
        torch = self.torch
        tensors = [torch.from_dlpack(session.matrix(10, 10)) for _ in range(10)]
        views = [tensor[3] for tensor in tensors]
        del tensors
        # On a thread that has never used CUDA.
        thread = threading.Thread(target=views.clear)
        thread.start()
        thread.join()
        self.settled(session)

    def after_the_session(self, session):
        torch = self.torch
        short = Session(session.library, session.device)
        tensor = torch.from_dlpack(short.matrix(5, 5))
        short.close()
        expect(tensor.sum().item() == 300, "the memory outlives the session")
        del tensor

    def many(self, session):
        torch = self.torch
        for round in range(1100):
            if round == 100:
                torch.cuda.synchronize()
                session.settle()
                before = torch.cuda.mem_get_info()[0]
            tensor = torch.from_dlpack(session.matrix(256, 256))
            tensor.add_(1)
            session.take(tensor)
            del tensor
            session.take(torch.ones(1000, device="cuda"), value=2.0)
        self.settled(session)
        torch.cuda.synchronize()
        after = torch.cuda.mem_get_info()[0]
        expect(after + (64 << 20) >= before, f"{before} bytes were free, {after} are left")

    def settled(self, session):
        gc.collect()
        self.torch.cuda.synchronize()
        used = session.settle()
        expect(used == 0, f"{used} bytes are still in use")

    def checks(self):
        return [self.read, self.written, self.other_streams, self.any_order, self.after_the_session, self.many]


class CuPy:
    def __init__(self):
        import cupy

        if cupy.cuda.runtime.getDeviceCount() == 0:
            raise ImportError("CuPy sees no GPU")
        self.cupy = cupy

    def read(self, session):
        cupy, matrix = self.cupy, session.matrix(30, 40)
        address = matrix.address
        array = cupy.from_dlpack(matrix)
        expect(array.data.ptr == address, "no copy")
        expect(array.shape == (30, 40) and array.dtype == cupy.float32, f"{array.shape}")
        expect((cupy.asnumpy(array).ravel() == list(range(1200))).all(), "the elements")
        array *= 2
        expect(session.take(array) == [2.0 * number for number in range(1200)], "what CuPy has written")
        del array
        self.settled(session)

    def written(self, session):
        cupy = self.cupy
        array = cupy.arange(1000, dtype=cupy.float32) + cupy.float32(1)
        expect(session.take(array, value=7.0) == [number + 1.0 for number in range(1000)], "the elements")
        session.settle()
        expect(bool((array == 7).all()), "what cupool has written")

    def many(self, session):
        for _ in range(1000):
            array = self.cupy.from_dlpack(session.matrix(64, 64))
            array += 1
            session.take(array)
            del array
        self.settled(session)

    def settled(self, session):
        gc.collect()
        self.cupy.cuda.Device().synchronize()
        used = session.settle()
        expect(used == 0, f"{used} bytes are still in use")

    def checks(self):
        return [self.read, self.written, self.many]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="fail if PyTorch or CuPy is missing")
    parser.add_argument("library")
    arguments = parser.parse_args()
    passed = failed = skipped = 0

    session = Session(load(arguments.library))
    checks = [
        capsules_make_the_round_trip,
        a_capsule_that_nobody_takes_frees_its_memory,
        what_cannot_be_done_is_an_error,
        a_thousand_capsules_leave_nothing,
    ]
    named = [(check.__name__, check) for check in checks]
    for library in (Torch, CuPy):
        try:
            of = library()
        except ImportError as error:
            print(f"{'FAILED' if arguments.all else 'skipped'}  {library.__name__}: {error}")
            failed, skipped = failed + arguments.all, skipped + (not arguments.all)
            continue
        named += [(f"{library.__name__}.{check.__name__}", check) for check in of.checks()]
    for name, check in named:
        try:
            check(session)
        except Exception:
            failed += 1
            print(f"FAILED  {name}")
            traceback.print_exc()
        else:
            passed += 1
            print(f"ok  {name}")
    failures = session.library.cupool_release_failures()
    if failures:
        failed += 1
        print(f"FAILED  {failures} releases have failed")
    session.close()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
