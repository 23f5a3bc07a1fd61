//! Two processes share a buffer of device memory: one writes it, the other reads it, changes it, and gives it back. No
//! byte of it passes through the host on the way, and no host thread waits for the device in between.
//!
//! The program starts itself a second time for the other process. With a CUDA driver it runs on the device; without one
//! both processes run on a simulated device, whose memory they really share (on Linux).

#[cfg(unix)]
mod channel;
#[cfg(unix)]
mod roles;

#[cfg(unix)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::{env, process::Command};

    use cupool::Driver;
    use cupool_sim::Simulator;

    let importing = env::args().nth(1).as_deref() == Some("import");
    let (driver, _simulator) = match Driver::load() {
        Ok(driver) => (driver, None),
        Err(_) => {
            if !importing {
                println!("No CUDA driver here: both processes run on the SIMULATED device.");
            }
            let simulator = Simulator::new();
            // SAFETY: the simulator's functions behave as the driver's for as long as it lives, which is to the end.
            (unsafe { Driver::from_functions(simulator.functions()) }, Some(simulator))
        }
    };
    if importing {
        return roles::import(driver);
    }
    let sum = roles::export(driver, Command::new(env::current_exe()?).arg("import"))?;
    println!("The other process read what this one had written, and this one what the other had: the sum is {sum}.");
    Ok(())
}

#[cfg(not(unix))]
fn main() {
    println!("Processes share memory by file descriptors here, and this system has none.");
}
