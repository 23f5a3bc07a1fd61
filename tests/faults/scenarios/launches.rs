//! Modules, functions and launches.

use cupool::launch::{Function, LaunchConfig, Module};

use crate::faults::world::{Base, Scenario, World, scenarios};

pub(super) fn all() -> Vec<Scenario> {
    scenarios! {
        Base: a_module_is_loaded, a_function_is_asked, a_launch_at_home, a_launch_with_memory_of_another_home,
            a_launch_with_loans, a_function_that_outlives_its_module;
    }
}

/// The simulated driver goes by the name.
const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
                   .visible .entry add_one(.param .u64 p0, .param .u32 p1)\n{\n    ret;\n}\n";

fn add_one(world: &mut World<'_>, base: &Base) -> Option<Function> {
    let module = world.get(Module::from_ptx(&base.context, PTX))?;
    world.get(module.function("add_one"))
}

fn a_module_is_loaded(world: &mut World<'_>, base: Base) -> Option<()> {
    let module = world.get(Module::from_ptx(&base.context, PTX))?;
    let same = module.clone();
    drop(module);
    world.refused(same.function("another"));
    Some(())
}

fn a_function_is_asked(world: &mut World<'_>, base: Base) -> Option<()> {
    let function = add_one(world, &base)?;
    let attribute = cupool::cuda_sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK;
    world.go_on(function.attribute(attribute));
    world.go_on(function.set_max_dynamic_shared_bytes(1 << 16));
    Some(())
}

fn a_launch_at_home(world: &mut World<'_>, base: Base) -> Option<()> {
    let function = add_one(world, &base)?;
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let config = LaunchConfig::for_elements(100, 64);
    // SAFETY: the arguments are as the kernel has them, and it stays within their bounds.
    world.go_on(unsafe { function.launch(&base.first, config, &(&mut buffer, 100_u32)) });
    world.equal(buffer.to_vec(), [1; 100]);
    Some(())
}

fn a_launch_with_memory_of_another_home(world: &mut World<'_>, base: Base) -> Option<()> {
    let function = add_one(world, &base)?;
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let config = LaunchConfig::for_elements(100, 64);
    for _ in 0..2 {
        // SAFETY: as above.
        world.go_on(unsafe { function.launch(&base.second, config, &(&mut buffer, 100_u32)) });
    }
    world.equal(buffer.to_vec(), [2; 100]);
    Some(())
}

fn a_launch_with_loans(world: &mut World<'_>, base: Base) -> Option<()> {
    let function = add_one(world, &base)?;
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let mut loan = world.get(buffer.on(&base.second))?;
    let config = LaunchConfig::for_elements(100, 64);
    // SAFETY: as above.
    world.go_on(unsafe { function.launch(&base.second, config, &(&mut loan, 100_u32)) });
    drop(loan);
    world.equal(buffer.to_vec(), [1; 100]);
    Some(())
}

fn a_function_that_outlives_its_module(world: &mut World<'_>, base: Base) -> Option<()> {
    let function = add_one(world, &base)?;
    let mut buffer = world.get(base.pool.alloc_zeroed::<u32, _>(100, &*base.first))?;
    let config = LaunchConfig::for_elements(100, 64);
    // SAFETY: as above.
    world.go_on(unsafe { function.launch(&base.first, config, &(&mut buffer, 100_u32)) });
    drop(function);
    world.equal(buffer.to_vec(), [1; 100]);
    Some(())
}
