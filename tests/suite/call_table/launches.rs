//! Modules, functions and launches.

use cupool::{
    cuda_sys::CUfunction_attribute,
    launch::{LaunchConfig, Module},
};

use super::*;

const PTX: &str = ".version 7.0\n.target sm_75\n.address_size 64\n\
                   .visible .entry nothing(.param .u64 p0)\n{\n    ret;\n}\n";

pub(super) fn launches(table: &mut Table<'_>) {
    let fixture = table.fixture;
    fixture.sim().register_kernel("nothing", &[8], |_| {});
    let (context, pool, stream, other) = (fixture.context(), fixture.pool(), fixture.stream(), fixture.stream());
    let load = [cuCtxPushCurrent, EXCHANGE, cuModuleLoadData, EXCHANGE, cuCtxPopCurrent];
    let module = table.row("Module::from_ptx", &load, || Module::from_ptx(&context, PTX).unwrap());
    let image = [PTX.as_bytes(), &[0]].concat();
    // SAFETY: the simulated driver takes terminated text for an image.
    drop(table.row("Module::from_image", &load, || unsafe { Module::from_image(&context, &image) }.unwrap()));
    let find = [cuCtxPushCurrent, cuModuleGetFunction, cuCtxPopCurrent];
    let function = table.row("Module::function", &find, || module.function("nothing").unwrap());
    let registers = CUfunction_attribute::CU_FUNC_ATTRIBUTE_NUM_REGS;
    table.row("Function::attribute", &[cuFuncGetAttribute], || function.attribute(registers).unwrap());
    let more = || function.set_max_dynamic_shared_bytes(1 << 16).unwrap();
    table.row("Function::set_max_dynamic_shared_bytes", &[cuFuncSetAttribute], more);
    let config = table.row("LaunchConfig::for_elements", &[], || LaunchConfig::for_elements(1, 32));
    none! { table:
        "Module::as_raw" => module.as_raw();
        "Function::as_raw" => function.as_raw();
    }
    let buffer = pool.alloc_zeroed::<u32, _>(64, &stream).unwrap();
    // SAFETY: the kernel has one parameter, an address, and does nothing.
    let launch = |on: &Stream| unsafe { function.launch(on, config, &(&buffer,)) }.unwrap();
    table.row("Function::launch", &[cuLaunchKernel], || launch(&stream));
    let create = [cuCtxPushCurrent, cuEventCreate, cuCtxPopCurrent];
    let fence = [cuEventRecord, cuStreamWaitEvent];
    let first = [&create[..], &fence, &create, &[cuLaunchKernel], &fence].concat();
    table.row("Function::launch (another home, the first time)", &first, || launch(&other));
    table.row("Function::launch (another home)", &[&fence[..], &[cuLaunchKernel], &fence].concat(), || launch(&other));
    let (raw, of) = table.row("Function::into_raw_parts", &[], || function.into_raw_parts());
    // SAFETY: the parts of the function above.
    drop(table.row("Function::from_raw_parts", &[], || unsafe { cupool::launch::Function::from_raw_parts(raw, of) }));
    let (raw, of) = table.row("Module::into_raw_parts", &[], || module.into_raw_parts().unwrap());
    // SAFETY: the parts of the module above.
    let module = table.row("Module::from_raw_parts", &[], || unsafe { Module::from_raw_parts(raw, of) });
    table.row("drop of Module", &[cuCtxPushCurrent, cuModuleUnload, cuCtxPopCurrent], || drop(module));
}
