//! The size of every public type: a table, committed as `benches/results/sizes.md`.

#![cfg(all(target_os = "linux", target_pointer_width = "64"))]

use std::{collections::BTreeSet, fmt::Write, sync::Arc};

use cupool::{ipc::*, *};

use crate::{committed, surface};

const HEAD: &str = "# Sizes

Bytes of each public type on 64-bit Linux, as `tests/suite/sizes.rs` finds them. `u8` stands for any type of element.
";

/// Rows of types with their names, sizes and alignments; `Option`s of them as well, which tell whether there is a niche.
macro_rules! sizes {
    ($($of:ty),* $(,)?) => {
        vec![$( (stringify!($of), size_of::<$of>(), align_of::<$of>(), size_of::<Option<$of>>()) ),*]
    };
}

type Row = (&'static str, usize, usize, usize);

fn rows() -> Vec<Row> {
    let mut rows = sizes![
        Driver, Device, Uuid, Context, ContextRef<'_>, MemoryInfo,
        Stream, StreamRef<'_>, StreamOptions, DefaultStream<Legacy>, DefaultStream<PerThread>, Legacy, PerThread,
        Event, EventRef<'_>, TimedEvent, RelaxedCaptureMode,
        MemPool, MemPoolRef<'_>, MemPoolProperties, MemPoolLocation, MemPoolUsage, MemKind, MemHandleTypes, Access,
        CurrentPool<'_>, DefaultThreshold, Trimmed, Rescue, GraphMemoryUsage,
        Buffer<u8, &Stream>, Buffer<u8, Arc<Stream>>, Buffer<u8, Stream>, DeviceSlice<'_, u8>, DeviceSliceMut<'_, u8>,
        Loan<'_, u8, &Stream>, SharedLoan<'_, u8, &Stream>, DefaultLoan<'_, u8, &Stream, Legacy>,
        SharedDefaultLoan<'_, u8, &Stream, Legacy>,
        PinnedBuffer<u8>, Registered<Vec<u8>, u8>, ManagedBuffer<u8, &Stream>, ForeignBuffer<u8, (), &Stream>,
        MemLocation, PointerInfo, MemoryKind,
        Capture<'_>, CaptureMode, CaptureStatus, Graph, GraphBuffer<'_, u8>, GraphExec, InstantiateOptions,
        ImportedPool, ImportedBuffer<u8, &Stream>, ExportedPointer, FabricHandle, EventHandle, InterprocessEvent,
        Error, DriverError, LoadFailure, OutOfMemory,
    ];
    #[cfg(feature = "dlpack")]
    rows.extend({
        use cupool::dlpack::{Bf16, Bool, ConsumerStream, DlpackError, F16, ImportedTensor, ManagedTensor, ffi::*};
        sizes![
            ManagedTensor, ImportedTensor<u8, &Stream>, ConsumerStream, DlpackError, F16, Bf16, Bool,
            DLPackVersion, DLDeviceType, DLDevice, DLDataTypeCode, DLDataType, DLTensor, DLManagedTensorVersioned,
        ]
    });
    #[cfg(feature = "launch")]
    rows.extend({
        use cupool::launch::{ByValue, Function, LaunchConfig, Module};
        sizes![Module, Function, LaunchConfig, ByValue<u8>]
    });
    rows
}

#[test]
fn every_public_type_has_the_size_that_the_table_says() {
    let rows = rows();
    let named: BTreeSet<String> =
        rows.iter().map(|(of, ..)| of.split('<').next().unwrap_or(of).trim().to_owned()).collect();
    let types = surface::types();
    assert_eq!(types.difference(&named).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the table");
    assert_eq!(named.difference(&types).collect::<Vec<_>>(), Vec::<&String>::new(), "no public types");
    let mut page = format!("{HEAD}\n| type | size | alignment | of an `Option` |\n| --- | ---: | ---: | ---: |\n");
    for (of, size, align, option) in rows {
        writeln!(page, "| `{of}` | {size} | {align} | {option} |").unwrap();
    }
    println!("{page}");
    if cfg!(all(feature = "dlpack", feature = "launch")) {
        let committed = include_str!("../../benches/results/sizes.md");
        committed::assert_same("benches/results/sizes.md", committed, &page);
    }
}
