//! Buffers as DLPack tensors: what a consumer reads in them, and that the memory is freed after the consumer's work.

use core::ptr::without_provenance_mut;
use std::{
    sync::{Arc, mpsc},
    thread,
};

use cupool::{
    Buffer, Context, Error, Stream,
    cuda_sys::{CUstream, CUstreamCaptureMode},
    dlpack::{
        Bf16, Bool, ConsumerStream, DlElement, DlpackError, F16, ManagedTensor,
        ffi::{DLDataTypeCode, DLDeviceType, DLManagedTensorVersioned},
    },
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, assert_no_findings},
    gate::Gate,
};

const LEN: usize = 24;
const LEGACY: usize = 1;
const PER_THREAD: usize = 2;

fn handle(of: usize) -> CUstream {
    without_provenance_mut(of)
}

fn exported(buffer: Buffer<u32>, consumer: ConsumerStream) -> ManagedTensor {
    buffer.into_dlpack(&[2, 3, 4], consumer).map_err(|(error, _)| error).unwrap()
}

/// The tensor as a consumer has it.
fn given_away(tensor: ManagedTensor) -> &'static DLManagedTensorVersioned {
    // SAFETY: live until its deleter is called, which the test does last.
    unsafe { &*tensor.into_raw() }
}

/// What a consumer does when it is done.
fn delete(tensor: &'static DLManagedTensorVersioned) {
    let raw = core::ptr::from_ref(tensor).cast_mut();
    // SAFETY: the deleter is called once, and the tensor is not used afterwards.
    unsafe { tensor.deleter.unwrap()(raw) };
}

/// A consumer's work: sets every byte, on a stream by its handle, which may be a default one.
fn write(context: &Context, tensor: &DLManagedTensorVersioned, value: u8, stream: CUstream) {
    let memset = context.driver().functions().cuMemsetD8Async;
    let address = tensor.dl_tensor.data.addr() as u64;
    // SAFETY: the memory is the consumer's until it calls the deleter.
    let code = context.with_current(|| Ok(unsafe { memset(address, value, 4 * LEN, stream) })).unwrap();
    assert_eq!(code, CUresult::CUDA_SUCCESS);
}

#[test]
fn a_consumer_finds_the_elements_where_they_are() {
    let fixture = Fixture::new();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let buffer = pool.alloc_from_host(&[7_u32; LEN], Arc::clone(&stream)).unwrap();
    let address = buffer.as_raw();
    let tensor = given_away(exported(buffer, ConsumerStream::HOME));
    assert_eq!((tensor.version.major, tensor.flags), (1, 0));
    let dl = &tensor.dl_tensor;
    assert_eq!((dl.data.addr() as u64, dl.byte_offset, dl.ndim), (address, 0, 3));
    assert_eq!((dl.device.device_type, dl.device.device_id), (DLDeviceType::kDLCUDA, 0));
    assert_eq!((dl.dtype.code, dl.dtype.bits, dl.dtype.lanes), (DLDataTypeCode::kDLUInt, 32, 1));
    // SAFETY: as many numbers as there are dimensions.
    let (shape, strides) =
        unsafe { (core::slice::from_raw_parts(dl.shape, 3), core::slice::from_raw_parts(dl.strides, 3)) };
    assert_eq!((shape, strides), (&[2, 3, 4][..], &[12, 4, 1][..]));
    delete(tensor);
    stream.synchronize().unwrap();
}

#[test]
fn elements_are_called_as_the_protocol_calls_them() {
    fn is<T: DlElement>(code: DLDataTypeCode) {
        let of = T::DATA_TYPE;
        assert_eq!((of.code, usize::from(of.bits), of.lanes), (code, 8 * size_of::<T>(), 1));
    }
    is::<i8>(DLDataTypeCode::kDLInt);
    is::<i16>(DLDataTypeCode::kDLInt);
    is::<i32>(DLDataTypeCode::kDLInt);
    is::<i64>(DLDataTypeCode::kDLInt);
    is::<u8>(DLDataTypeCode::kDLUInt);
    is::<u16>(DLDataTypeCode::kDLUInt);
    is::<u32>(DLDataTypeCode::kDLUInt);
    is::<u64>(DLDataTypeCode::kDLUInt);
    is::<f32>(DLDataTypeCode::kDLFloat);
    is::<f64>(DLDataTypeCode::kDLFloat);
    is::<F16>(DLDataTypeCode::kDLFloat);
    is::<Bf16>(DLDataTypeCode::kDLBfloat);
    is::<Bool>(DLDataTypeCode::kDLBool);
}

#[test]
fn a_tensor_that_nobody_took_frees_its_memory() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    for consumer in [ConsumerStream::HOME, ConsumerStream::LEGACY, ConsumerStream::PER_THREAD, ConsumerStream::UNKNOWN]
    {
        let mut tensor = exported(pool.alloc(LEN, Arc::clone(&stream)).unwrap(), consumer);
        assert!(!tensor.is_read_only());
        tensor.set_read_only();
        assert!(tensor.is_read_only());
        drop(tensor);
        assert_eq!(fixture.sim().live().allocations, 0);
    }
}

#[test]
fn a_consumer_on_the_home_stream_costs_nothing() {
    let fixture = Fixture::simulated();
    let (pool, stream) = (fixture.pool(), fixture.shared_stream());
    let buffer = pool.alloc(LEN, Arc::clone(&stream)).unwrap();
    let tensor = fixture.expect_calls(&[], || exported(buffer, ConsumerStream::HOME));
    fixture.expect_calls(&[Symbol::cuMemFreeAsync], || drop(tensor));
}

/// Everything that a consumer on a default stream does, while `home` is held up.
fn round_trip(fixture: &Fixture, consumer: ConsumerStream, stream: CUstream) {
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let mut result = pool.alloc_zeroed::<u32, _>(LEN, Stream::new(&context).unwrap()).unwrap();
    result.home().synchronize().unwrap();
    let gate = Gate::on(fixture, &home);
    let mut buffer = pool.alloc(LEN, Arc::clone(&home)).unwrap();
    buffer.fill(0x0101_0101).unwrap();
    let tensor = given_away(exported(buffer, consumer));
    let copy = context.driver().functions().cuMemcpyDtoDAsync;
    let (to, from) = (result.as_raw(), tensor.dl_tensor.data.addr() as u64);
    // SAFETY: both are as long; the tensor is the consumer's, and nobody uses the other meanwhile.
    let code = context.with_current(|| Ok(unsafe { copy(to, from, 4 * LEN, stream) })).unwrap();
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    write(&context, tensor, 9, stream);
    delete(tensor);
    // The memory is handed out again, behind all that.
    let mut again = pool.alloc::<u32, _>(LEN, Arc::clone(&home)).unwrap();
    again.fill(5).unwrap();
    gate.open();
    assert_eq!(again.to_vec().unwrap(), [5; LEN]);
    context.synchronize().unwrap();
    assert_eq!(result.as_mut_slice().as_slice().to_vec().unwrap(), [0x0101_0101; LEN]);
}

#[test]
fn a_consumer_on_the_legacy_default_stream_reads_after_home_and_home_frees_after_it() {
    round_trip(&Fixture::alone(), ConsumerStream::LEGACY, handle(LEGACY));
}

#[test]
fn a_consumer_on_the_default_stream_of_its_thread_reads_after_home_and_home_frees_after_it() {
    round_trip(&Fixture::alone(), ConsumerStream::PER_THREAD, handle(PER_THREAD));
}

#[test]
fn a_consumer_on_a_stream_of_its_own_reads_after_home_and_home_frees_after_it() {
    let fixture = Fixture::alone();
    let theirs = fixture.stream();
    // SAFETY: the stream outlives the tensor.
    round_trip(&fixture, unsafe { ConsumerStream::from_raw(theirs.as_raw()) }, theirs.as_raw());
}

#[test]
fn a_consumer_whose_stream_is_gone_at_the_end_is_waited_for() {
    let fixture = Fixture::new();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let theirs = fixture.stream();
    // SAFETY: the stream is live until the export.
    let consumer = unsafe { ConsumerStream::from_raw(theirs.as_raw()) }.until_export();
    let tensor = given_away(exported(pool.alloc(LEN, Arc::clone(&home)).unwrap(), consumer));
    write(&context, tensor, 1, theirs.as_raw());
    drop(theirs);
    delete(tensor);
    home.synchronize().unwrap();
}

#[test]
fn d1_every_order_of_work_keeps_the_memory_for_the_consumer() {
    for seed in 0..30 {
        for (consumer, stream) in [(ConsumerStream::LEGACY, LEGACY), (ConsumerStream::PER_THREAD, PER_THREAD)] {
            let fixture = Fixture::with(Simulator::builder().seed(seed));
            round_trip(&fixture, consumer, handle(stream));
        }
    }
}

#[test]
fn without_the_waits_the_consumer_would_be_overtaken() {
    let fixture = Fixture::unchecked();
    fixture.sim().ignore_every(Symbol::cuStreamWaitEvent);
    round_trip_unchecked(&fixture, ConsumerStream::LEGACY);
    assert!(!fixture.sim().findings().is_empty());
    // Nor does the buffer's stream wait for a consumer on another one than was named.
    let fixture = Fixture::unchecked();
    round_trip_unchecked(&fixture, ConsumerStream::HOME);
    assert!(!fixture.sim().findings().is_empty());
}

fn round_trip_unchecked(fixture: &Fixture, consumer: ConsumerStream) {
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let mut buffer = pool.alloc(LEN, Arc::clone(&home)).unwrap();
    buffer.fill(1).unwrap();
    let tensor = given_away(exported(buffer, consumer));
    write(&context, tensor, 9, handle(LEGACY));
    delete(tensor);
    context.synchronize().unwrap();
}

#[test]
fn d6_work_on_one_threads_default_stream_is_waited_for_by_a_deleter_on_another() {
    let fixture = Fixture::alone();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let buffer = pool.alloc(LEN, Arc::clone(&home)).unwrap();
    let (give, given) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let (fixture, home, context) = (&fixture, &home, &context);
        scope.spawn(move || {
            let tensor = exported(buffer, ConsumerStream::PER_THREAD);
            let gate = context.with_current(|| Ok(Gate::on_handle(fixture, home, handle(PER_THREAD)))).unwrap();
            // SAFETY: the tensor is live.
            write(context, unsafe { &*tensor.as_raw() }, 3, handle(PER_THREAD));
            give.send((tensor, gate)).unwrap();
            // The stream may end with its thread, and that may wait.
            let _ = ended.recv();
        });
        let (tensor, gate) = given.recv().unwrap();
        scope.spawn(|| drop(tensor)).join().unwrap();
        fixture.assert_pending(home);
        gate.open();
        home.synchronize().unwrap();
        drop(end);
    });
    context.synchronize().unwrap();
}

#[test]
fn b3_the_deleter_runs_on_a_thread_without_a_context() {
    let fixture = Fixture::new();
    let (pool, home) = (fixture.pool(), fixture.shared_stream());
    for consumer in [ConsumerStream::HOME, ConsumerStream::LEGACY, ConsumerStream::PER_THREAD, ConsumerStream::UNKNOWN]
    {
        let tensor = exported(pool.alloc(LEN, Arc::clone(&home)).unwrap(), consumer);
        thread::spawn(move || drop(tensor)).join().unwrap();
    }
    home.synchronize().unwrap();
}

#[test]
fn a_tensor_outlives_everything_that_its_memory_came_from() {
    let fixture = Fixture::new();
    let context = fixture.context();
    let tensor = {
        let (pool, home) = (fixture.pool(), fixture.shared_stream());
        given_away(exported(pool.alloc_zeroed(LEN, home).unwrap(), ConsumerStream::LEGACY))
    };
    write(&context, tensor, 1, handle(LEGACY));
    delete(tensor);
}

#[test]
fn what_cannot_be_exported_comes_back() {
    let fixture = Fixture::new();
    let (pool, home) = (fixture.pool(), fixture.shared_stream());
    let mut buffer = pool.alloc::<u8, _>(LEN, Arc::clone(&home)).unwrap();
    let many = [1; 65];
    for (shape, expected) in [
        (&[][..], DlpackError::Shape),
        (&[LEN + 1], DlpackError::Shape),
        (&[2, LEN], DlpackError::Shape),
        (&[usize::MAX, 2], DlpackError::Shape),
        (&[usize::MAX, usize::MAX, LEN], DlpackError::Shape),
        (&[LEN, 0], DlpackError::Shape),
        (&many, DlpackError::Dimensions(65)),
    ] {
        let (error, back) = buffer.into_dlpack(shape, ConsumerStream::LEGACY).map(drop).unwrap_err();
        assert_eq!(error, Error::Dlpack(expected));
        buffer = back;
    }
    buffer.fill(1).unwrap();
    assert_eq!(buffer.to_vec().unwrap(), [1; LEN]);
    drop(buffer.into_dlpack(&[1, LEN, 1], ConsumerStream::LEGACY).map_err(|(error, _)| error).unwrap());
    let none = pool.alloc::<u8, _>(0, Arc::clone(&home)).unwrap();
    let none = none.into_dlpack(&[3, 0, 2], ConsumerStream::LEGACY).map_err(|(error, _)| error).unwrap();
    // SAFETY: the tensor is live.
    assert!(unsafe { (*none.as_raw()).dl_tensor.data }.is_null());
    let one = pool.alloc::<u8, _>(1, home).unwrap();
    let one = one.into_dlpack(&[], ConsumerStream::LEGACY).map_err(|(error, _)| error).unwrap();
    // SAFETY: as above.
    assert_eq!(unsafe { (*one.as_raw()).dl_tensor.ndim }, 0);
}

#[test]
fn the_numbers_of_the_protocol_name_streams() {
    // SAFETY: no handle is used.
    let of = |number| unsafe { ConsumerStream::from_protocol(number) };
    assert_eq!(of(-1), Ok(ConsumerStream::UNKNOWN));
    assert_eq!(of(1), Ok(ConsumerStream::LEGACY));
    assert_eq!(of(2), Ok(ConsumerStream::PER_THREAD));
    // SAFETY: as above.
    assert_eq!(of(0x7f00), Ok(unsafe { ConsumerStream::from_raw(handle(0x7f00)) }));
    for number in [0, -2, i64::MIN] {
        assert_eq!(of(number), Err(Error::Dlpack(DlpackError::Stream(number))));
    }
    // In the driver's own calls 0 is the legacy default stream too.
    for (number, named) in [(0, ConsumerStream::LEGACY), (1, ConsumerStream::LEGACY), (2, ConsumerStream::PER_THREAD)] {
        // SAFETY: as above.
        assert_eq!(unsafe { ConsumerStream::from_raw(handle(number)) }, named);
    }
}

/// Exports, makes calls fail, and calls the deleter after a consumer's work; says whether the memory was freed.
fn freed_with(consumer: ConsumerStream, fail: impl FnOnce(&Fixture)) -> bool {
    let fixture = Fixture::unchecked();
    let (context, pool, home) = (fixture.context(), fixture.pool(), fixture.shared_stream());
    let mut buffer = pool.alloc(LEN, Arc::clone(&home)).unwrap();
    buffer.fill(1).unwrap();
    let tensor = given_away(exported(buffer, consumer));
    if consumer != ConsumerStream::HOME {
        if consumer == ConsumerStream::UNKNOWN {
            // Such a consumer sees to that itself.
            home.synchronize().unwrap();
        }
        write(&context, tensor, 9, handle(LEGACY));
    }
    fail(&fixture);
    delete(tensor);
    fixture.sim().clear_faults();
    let freed = fixture.sim().live().allocations == 0;
    let _ = context.synchronize();
    assert_no_findings(fixture.sim());
    freed
}

#[test]
fn a_wait_of_the_host_stands_in_for_one_of_the_device() {
    let unknown = CUresult::CUDA_ERROR_UNKNOWN;
    for call in [Symbol::cuEventRecord, Symbol::cuStreamWaitEvent, Symbol::cuStreamIsCapturing] {
        assert!(freed_with(ConsumerStream::LEGACY, |fixture| fixture.sim().fail(call, 0, unknown)), "{call:?}");
        assert!(!freed_with(ConsumerStream::LEGACY, |fixture| {
            fixture.sim().fail(call, 0, unknown);
            fixture.sim().fail_every(Symbol::cuCtxSynchronize, unknown);
        }));
    }
}

#[test]
fn a_consumer_that_can_neither_be_ordered_nor_waited_for_keeps_the_memory() {
    for consumer in [ConsumerStream::UNKNOWN, ConsumerStream::LEGACY.until_export()] {
        assert!(freed_with(consumer, |_| {}));
        let unknown = CUresult::CUDA_ERROR_UNKNOWN;
        assert!(!freed_with(consumer, |fixture| fixture.sim().fail(Symbol::cuCtxSynchronize, 0, unknown)));
    }
}

#[test]
fn c1_a_deleter_after_the_drivers_end_does_nothing() {
    for consumer in [ConsumerStream::HOME, ConsumerStream::LEGACY, ConsumerStream::UNKNOWN] {
        freed_with(consumer, |fixture| fixture.sim().shut_down());
        freed_with(consumer, |fixture| fixture.sim().reset_device(0));
        freed_with(consumer, |fixture| fixture.sim().inject_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    }
}

#[test]
fn g3_a_deleter_during_a_capture_gives_the_memory_up_and_the_capture_survives() {
    for blocking in [false, true] {
        let fixture = Fixture::unchecked();
        let (pool, home) = (fixture.pool(), fixture.shared_stream());
        let options = cupool::StreamOptions { blocking, ..Default::default() };
        let other = Stream::with_options(home.context(), options).unwrap();
        let buffer = pool.alloc::<u32, _>(LEN, Arc::clone(&home)).unwrap();
        let tensor = exported(buffer, ConsumerStream::LEGACY);
        // A stream that the legacy one would have to wait for, or the home stream itself.
        let captured = if blocking { &other } else { &*home };
        let functions = home.driver().functions();
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_GLOBAL;
        // SAFETY: the stream is live.
        let code = unsafe { functions.cuStreamBeginCapture.unwrap()(captured.as_raw(), mode) };
        assert_eq!(code, CUresult::CUDA_SUCCESS);
        let buffer = pool.alloc::<u32, _>(0, Arc::clone(&home)).unwrap();
        drop(buffer.into_dlpack(&[0], ConsumerStream::LEGACY).map_err(|(error, _)| error).unwrap());
        drop(tensor);
        let mut graph = core::ptr::null_mut();
        // SAFETY: the stream is live and captures; the call writes one handle.
        let code = unsafe { functions.cuStreamEndCapture.unwrap()(captured.as_raw(), &raw mut graph) };
        assert_eq!(code, CUresult::CUDA_SUCCESS, "blocking: {blocking}");
        assert_eq!(fixture.sim().live().allocations, 1);
        assert_no_findings(fixture.sim());
    }
}

#[test]
fn an_export_during_a_capture_is_refused() {
    let fixture = Fixture::unchecked();
    let (pool, home) = (fixture.pool(), fixture.shared_stream());
    let buffer = pool.alloc::<u32, _>(LEN, Arc::clone(&home)).unwrap();
    let functions = home.driver().functions();
    let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the stream is live.
    let code = unsafe { functions.cuStreamBeginCapture.unwrap()(home.as_raw(), mode) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    let (error, buffer) = buffer.into_dlpack(&[LEN], ConsumerStream::LEGACY).map(drop).unwrap_err();
    assert_eq!(error, Error::StreamCapturing);
    let mut graph = core::ptr::null_mut();
    // SAFETY: the stream is live and captures; the call writes one handle.
    let code = unsafe { functions.cuStreamEndCapture.unwrap()(home.as_raw(), &raw mut graph) };
    assert_eq!(code, CUresult::CUDA_SUCCESS);
    drop(buffer);
    assert_eq!(fixture.sim().live().allocations, 0);
}

#[test]
fn d11_a_buffer_with_a_forgotten_loan_is_not_exported() {
    let fixture = Fixture::unchecked();
    let (pool, home, other) = (fixture.pool(), fixture.shared_stream(), fixture.stream());
    let mut buffer = pool.alloc::<u32, _>(LEN, home).unwrap();
    core::mem::forget(buffer.on(&other).unwrap());
    let (error, _) = buffer.into_dlpack(&[LEN], ConsumerStream::LEGACY).map(drop).unwrap_err();
    assert_eq!(error, Error::LoanForgotten);
}

#[test]
fn a_thousand_tensors_leave_nothing() {
    let fixture = Fixture::new();
    let (pool, home) = (fixture.pool(), fixture.shared_stream());
    for _ in 0..1000 {
        drop(exported(pool.alloc(LEN, Arc::clone(&home)).unwrap(), ConsumerStream::LEGACY));
    }
    home.synchronize().unwrap();
    assert_eq!(pool.usage().unwrap().used, 0);
    if let Some(simulator) = fixture.simulator() {
        assert_eq!(simulator.live().events, 1);
    }
}
