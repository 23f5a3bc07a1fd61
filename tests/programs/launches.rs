//! Kernels, with memory at home anywhere.

use cupool::launch::{Function, LaunchConfig, Module};
use cupool_sim::{KernelAccess, Symbol};

use super::{
    controls::{Ignored, Rule},
    world::{Ground, World},
};

/// What there is to launch.
pub(crate) struct Kernels {
    /// Adds a number to every byte.
    add: Function,
    /// Adds the bytes of one memory to those of another.
    sum: Function,
}

impl Kernels {
    pub(crate) fn new(ground: &Ground) -> Self {
        ground.simulator.register_kernel("add", &[8, 4, 1], |kernel: &mut KernelAccess<'_>| {
            let (memory, len, value) = (kernel.parameter_u64(0), kernel.parameter_u64(1), kernel.parameter_u64(2));
            let bytes: Vec<u8> =
                kernel.read(memory, len as usize).iter().map(|byte| byte.wrapping_add(value as u8)).collect();
            kernel.write(memory, &bytes);
        });
        ground.simulator.register_kernel("sum", &[8, 8, 4], |kernel: &mut KernelAccess<'_>| {
            let (to, from, len) = (kernel.parameter_u64(0), kernel.parameter_u64(1), kernel.parameter_u64(2));
            let (a, b) = (kernel.read(to, len as usize), kernel.read(from, len as usize));
            let sums: Vec<u8> = a.iter().zip(b).map(|(a, b)| a.wrapping_add(b)).collect();
            kernel.write(to, &sums);
        });
        let module = Module::from_ptx(&ground.context, ".version 8.0").unwrap();
        Self { add: module.function("add").unwrap(), sum: module.function("sum").unwrap() }
    }
}

impl<'g> World<'g> {
    pub(crate) fn launch(&mut self) {
        let Some(mut held) = self.take() else { return };
        let stream = self.stream();
        let other = if self.choices.once_in(2) { self.take() } else { None };
        let (view, model) = held.exclusive();
        match &other {
            None => {
                let (start, end) = self.choices.part(model.len());
                let value = self.choices.next() as u8;
                let config = LaunchConfig::for_elements((end - start) as u32, 256);
                let foreign = usize::from(!view.home().is_same(&stream));
                let _without = self.leave_out_of_launch(foreign);
                let last = foreign as u64;
                let _hindered = self.hinder([(Symbol::cuEventRecord, last), (Symbol::cuStreamWaitEvent, last)]);
                let arguments = (view.slice(start..end).unwrap(), (end - start) as u32, value);
                // SAFETY: the arguments are the kernel's, and it stays within them.
                unsafe { self.kernels.add.launch(&stream, config, &arguments).unwrap() };
                model.map(start, end, |byte| byte.wrapping_add(value));
            }
            Some(other) => {
                let (source, of_source) = other.shared();
                let len = model.len().min(of_source.len());
                let config = LaunchConfig::for_elements(len as u32, 256);
                let homes = [view.home(), source.home()];
                let _without = self.leave_out_of_launch(homes.iter().filter(|home| !home.is_same(&stream)).count());
                let arguments = (view.slice(..len).unwrap(), source.slice(..len).unwrap(), len as u32);
                // SAFETY: as above.
                unsafe { self.kernels.sum.launch(&stream, config, &arguments).unwrap() };
                model.add(of_source, len);
            }
        }
        self.held.push(held);
        self.held.extend(other);
    }

    /// Leaves out the fences on one side of a launch with so much foreign memory.
    fn leave_out_of_launch(&self, foreign: usize) -> Option<Ignored<'g>> {
        let before = self.leave_out_from(Rule::LaunchBefore, 0, foreign);
        before.or_else(|| self.leave_out_from(Rule::LaunchAfter, foreign, foreign))
    }
}
