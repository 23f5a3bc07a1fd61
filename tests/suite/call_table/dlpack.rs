//! Tensors out and in.

use cupool::dlpack::{ConsumerStream, ImportedTensor, ManagedTensor};

use super::*;

pub(super) fn dlpack(table: &mut Table<'_>) {
    let (pool, stream) = (table.fixture.pool(), table.fixture.shared_stream());
    let context = stream.context();
    let buffer = || pool.alloc_zeroed::<f32, _>(64, Arc::clone(&stream)).unwrap();
    let export =
        |buffer: Buffer<f32>, consumer| buffer.into_dlpack(&[64], consumer).map_err(|(error, _)| error).unwrap();
    let home = buffer();
    let tensor = table.row("Buffer::into_dlpack", &[], || export(home, ConsumerStream::HOME));
    table.row("drop of ManagedTensor", &[cuMemFreeAsync], || drop(tensor));

    let create = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    let fence = [cuCtxPushCurrent, cuStreamIsCapturing, cuEventRecord, cuStreamWaitEvent, cuCtxPopCurrent];
    let captures = [cuStreamIsCapturing];
    let legacy = buffer();
    let first = [&create[..], &captures, &fence].concat();
    let tensor = table.row("Buffer::into_dlpack (a default stream, the first time)", &first, || {
        export(legacy, ConsumerStream::LEGACY)
    });
    let back = [&captures[..], &fence, &[cuMemFreeAsync]].concat();
    table.row("drop of ManagedTensor (a default stream)", &back, || drop(tensor));
    let legacy = buffer();
    let again = [&captures[..], &fence].concat();
    let mut tensor =
        table.row("Buffer::into_dlpack (a default stream)", &again, || export(legacy, ConsumerStream::LEGACY));
    none! { table:
        "ManagedTensor::as_raw" => tensor.as_raw();
        "ManagedTensor::version" => tensor.version();
        "ManagedTensor::is_read_only" => tensor.is_read_only();
        "ManagedTensor::set_read_only" => tensor.set_read_only();
        // SAFETY: no handle is used.
        "ConsumerStream::from_raw" => unsafe { ConsumerStream::from_raw(stream.as_raw()) };
        // SAFETY: as above.
        "ConsumerStream::from_protocol" => unsafe { ConsumerStream::from_protocol(1) };
        "ConsumerStream::until_export" => ConsumerStream::LEGACY.until_export();
    }
    let raw = table.row("ManagedTensor::into_raw", &[], || tensor.into_raw());
    // SAFETY: the tensor was just given up.
    drop(table.row("ManagedTensor::from_raw", &[], || unsafe { ManagedTensor::from_raw(raw) }.unwrap()));
    let unknown = buffer();
    let tensor = export(unknown, ConsumerStream::UNKNOWN);
    let wait = [EXCHANGE, cuCtxPushCurrent, cuCtxSynchronize, cuCtxPopCurrent, EXCHANGE, cuMemFreeAsync];
    table.row("drop of ManagedTensor (any stream)", &wait, || drop(tensor));

    let tensor = export(buffer(), ConsumerStream::HOME);
    // SAFETY: the tensor is a cupool buffer's, at home on the same stream.
    let import = || unsafe { ImportedTensor::<f32, _>::from_managed(tensor, &stream) }.unwrap();
    let mut tensor = table.row("ImportedTensor::from_managed", &[], import);
    none! { table:
        "ImportedTensor::shape" => tensor.shape().len();
        "ImportedTensor::is_read_only" => tensor.is_read_only();
        "ImportedTensor::len" => tensor.len();
        "ImportedTensor::is_empty" => tensor.is_empty();
        "ImportedTensor::home" => tensor.home().as_raw();
        "ImportedTensor::as_slice" => tensor.as_slice().len();
        "ImportedTensor::as_mut_slice" => tensor.as_mut_slice().map(drop).unwrap();
    }
    let buffer_of = table.row("ImportedTensor::into_buffer", &[], || tensor.into_buffer().map_err(|(error, _)| error));
    drop(buffer_of.unwrap());
    context.drop_retired().unwrap();
    let raw = export(buffer(), ConsumerStream::HOME).into_raw();
    // SAFETY: as above.
    let import = || unsafe { ImportedTensor::<f32, _>::from_raw(raw, &stream) }.unwrap();
    let tensor = table.row("ImportedTensor::from_raw", &[], import);
    drop(tensor);
    context.drop_retired().unwrap();
}
