//! Says what CUDA looks like from here: which driver was loaded, what the devices can do, and what to do about
//! whatever fails.

use std::{error::Error, process::ExitCode};

use cupool::{Device, Driver, MemPool, Result};

fn main() -> ExitCode {
    println!("cupool {}, built on the headers of CUDA {}", env!("CARGO_PKG_VERSION"), version(cupool::HEADER_VERSION));
    match examine() {
        Ok(0) => {
            println!("\nNo device is visible: look at `nvidia-smi` and at CUDA_VISIBLE_DEVICES.");
            ExitCode::FAILURE
        }
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            println!("\n{error}");
            if matches!(error, cupool::Error::Load(_)) {
                println!("\nWithout a driver, programs can still be tested on the simulated device (cupool-sim).");
            }
            ExitCode::FAILURE
        }
    }
}

/// Examines everything there is; returns the number of devices.
fn examine() -> Result<u32> {
    let driver = Driver::load()?;
    if let Some(library) = driver.library() {
        println!("driver library   {}", library.path().display());
        let missing: Vec<&str> = library.missing().map(|symbol| symbol.row()).collect();
        if !missing.is_empty() {
            println!("it lacks         {}", missing.join(", "));
        }
    }
    println!("supports CUDA    {}", version(driver.version()?));
    let count = driver.device_count()?;
    println!("devices          {count}");
    for device in driver.devices()? {
        let device = device?;
        println!("\ndevice {}", device.as_raw());
        describe(device);
    }
    Ok(count)
}

/// Prints a line for each question, also where there is no answer.
fn describe(device: Device) {
    line("name", device.name());
    line("UUID", device.uuid().map(|uuid| format!("GPU-{uuid}")));
    line("PCI bus", device.pci_bus_id());
    line("compute", device.compute_capability().map(|(major, minor)| format!("{major}.{minor}")));
    line("memory", device.total_memory().map(mebibytes));
    line("memory pools", device.memory_pools_supported().map(yes));
    line("pool sharing", device.mem_pool_supported_handle_types().map(handle_types));
    line("host pools", device.host_memory_pools_supported().map(yes));
    line("host NUMA pools", device.host_numa_memory_pools_supported().map(yes));
    line(
        "managed memory",
        device.concurrent_managed_access().map(|concurrent| {
            if concurrent { "host and device at once" } else { "host or device, not both at once" }.to_owned()
        }),
    );
    line("reads host RAM", device.pageable_memory_access().map(yes));
    line("GPUDirect RDMA", device.gpu_direct_rdma_supported().map(yes));
    line("copy engines", device.async_engine_count().map(|count| count.to_string()));
    line(
        "free memory",
        device.primary_context().and_then(|context| context.memory_info()).map(|info| mebibytes(info.free)),
    );
    match MemPool::default_of(&device) {
        Ok(pool) => {
            line(
                "default pool",
                pool.usage().map(|usage| {
                    format!("{} used of {} held", mebibytes(usage.used as usize), mebibytes(usage.reserved as usize))
                }),
            );
            line(
                "  threshold",
                pool.release_threshold().map(|threshold| match threshold {
                    0 => "0: gives all free memory back whenever a stream is synchronised, which is slow; \
                      a pool made with cupool keeps it"
                        .to_owned(),
                    u64::MAX => "keeps all memory".to_owned(),
                    bytes => format!("keeps {bytes} bytes"),
                }),
            );
        }
        Err(error) => line("default pool", Err::<String, _>(error)),
    }
}

fn line(name: &str, answer: Result<String, impl Error>) {
    match answer {
        Ok(answer) => println!("  {name:<16} {answer}"),
        Err(error) => println!("  {name:<16} no answer: {error}"),
    }
}

fn yes(supported: bool) -> String {
    if supported { "yes" } else { "no" }.to_owned()
}

fn mebibytes(bytes: usize) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn handle_types(mask: u32) -> String {
    let names = [(1, "file descriptor"), (2, "Win32"), (4, "Win32 KMT"), (8, "fabric")];
    let names: Vec<&str> = names.iter().filter(|(bit, _)| mask & bit != 0).map(|(_, name)| *name).collect();
    if names.is_empty() { "no".to_owned() } else { names.join(", ") }
}

fn version(number: u32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}
