//! What copies and fills cost the host, by the driver's calls and by ours, by size.
//!
//! `copy_from_host` and `copy_to_host` are compared with the plain call and a wait, which is what a program needs for the
//! same promise (the source may change, the destination is there), and with the plain call alone. Copies from and to a
//! `PinnedBuffer` are compared with the plain call and the event that says when the memory may be touched again.

use std::process::ExitCode;

use cupool::{Buffer, Event, MemPool, PinnedBuffer, Stream};

#[path = "measure/bench.rs"]
mod bench;

use bench::{
    Bench, Result, Row,
    raw::{self, must},
};

fn main() -> ExitCode {
    bench::main("copies", run)
}

fn run(bench: &mut Bench) -> Result {
    let stream = bench.stream()?;
    let pool = MemPool::new(&bench.device)?;
    for bytes in bench.choose(&[1 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20], 64 << 10) {
        from_and_to_the_host(bench, &pool, &stream, bytes)?;
        from_and_to_pinned_memory(bench, &pool, &stream, bytes)?;
        on_the_device(bench, &pool, &stream, bytes)?;
    }
    Ok(())
}

fn row<'a>(what: &str, bytes: usize, stream: &'a Stream) -> Row<'a> {
    let label = format!("{what}, {}", bench::bytes(bytes));
    // More would fill the stream's queue, and have the host wait for the device.
    Row::new(label, || must(stream.synchronize())).with("bytes", bytes).most(200)
}

fn from_and_to_the_host(bench: &mut Bench, pool: &MemPool, stream: &Stream, bytes: usize) -> Result {
    let theirs: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    let mut ours: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    let source = vec![7_u8; bytes];
    // SAFETY: both places hold so many bytes, and outlive the row, which drains the stream.
    let plain = || unsafe { raw::copy_to_device(stream, theirs.as_raw(), source.as_ptr(), bytes) };
    bench.row(
        row("host to device", bytes, stream)
            .with("direction", "host to device")
            .with("memory", "ordinary")
            .raw("plain and wait", || {
                plain();
                raw::synchronize_stream(stream);
            })
            .raw("plain", plain)
            .cupool("as it comes", || must(ours.copy_from_host(&source))),
    );

    let (mut for_raw, mut for_ours) = (vec![0_u8; bytes], vec![0_u8; bytes]);
    let destination = for_raw.as_mut_ptr();
    // SAFETY: as above; nobody else has the destination.
    let plain = || unsafe { raw::copy_to_host(stream, destination, theirs.as_raw(), bytes) };
    bench.row(
        row("device to host", bytes, stream)
            .with("direction", "device to host")
            .with("memory", "ordinary")
            .raw("plain and wait", || {
                plain();
                raw::synchronize_stream(stream);
            })
            .raw("plain", plain)
            .cupool("as it comes", || must(ours.copy_to_host(&mut for_ours))),
    );
    Ok(())
}

fn from_and_to_pinned_memory(bench: &mut Bench, pool: &MemPool, stream: &Stream, bytes: usize) -> Result {
    let theirs: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    let mut ours: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    let for_raw: PinnedBuffer<u8> = PinnedBuffer::new(&bench.context, bytes)?;
    let mut for_ours: PinnedBuffer<u8> = PinnedBuffer::new(&bench.context, bytes)?;
    let event = Event::new(&bench.context)?;
    // SAFETY: both places hold so many bytes, and outlive the row, which drains the stream; nobody looks at the host's.
    let plain = || unsafe { raw::copy_to_device(stream, theirs.as_raw(), for_raw.as_raw(), bytes) };
    bench.row(
        row("page-locked to device", bytes, stream)
            .with("direction", "host to device")
            .with("memory", "page-locked")
            .raw("plain and record", || {
                plain();
                raw::record(&event, stream);
            })
            .raw("plain", plain)
            .cupool("as it comes", || must(ours.copy_from_pinned(&for_ours))),
    );
    // SAFETY: as above.
    let plain = || unsafe { raw::copy_to_host(stream, for_raw.as_raw(), theirs.as_raw(), bytes) };
    bench.row(
        row("device to page-locked", bytes, stream)
            .with("direction", "device to host")
            .with("memory", "page-locked")
            .raw("plain and record", || {
                plain();
                raw::record(&event, stream);
            })
            .raw("plain", plain)
            .cupool("as it comes", || must(ours.copy_to_pinned(&mut for_ours))),
    );
    Ok(())
}

fn on_the_device(bench: &mut Bench, pool: &MemPool, stream: &Stream, bytes: usize) -> Result {
    let source: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    let theirs: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    let mut ours: Buffer<u8, &Stream> = pool.alloc_zeroed(bytes, stream)?;
    bench.row(
        row("device to device", bytes, stream)
            .with("direction", "device to device")
            // SAFETY: both places hold so many bytes, and outlive the row, which drains the stream.
            .raw("plain", || unsafe { raw::copy(stream, theirs.as_raw(), source.as_raw(), bytes) })
            .cupool("as it comes", || must(ours.copy_from(source.as_slice()))),
    );
    bench.row(
        row("fill", bytes, stream)
            .of("fills")
            // SAFETY: as above.
            .raw("plain", || unsafe { raw::fill(stream, theirs.as_raw(), 7, bytes) })
            .cupool("as it comes", || must(ours.fill(7))),
    );
    Ok(())
}
