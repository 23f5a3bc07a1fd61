//! One build on drivers of many ages: all that a driver has works, and what it lacks is refused by a typed error that
//! says so. A call or property that is new gets a row in [`NEWER`], or is one of `scenario::everything`.

use cupool::{
    Context, Device, Error, MemHandleTypes, MemKind, MemPool, MemPoolLocation, MemPoolProperties, Result, Stream,
    cuda_sys::{CUdevice_attribute as Attribute, CUmemPool_attribute as PoolAttribute},
};
use cupool_sim::{CUresult, Simulator, Symbol};

use crate::{
    fixture::{Fixture, POOL_SIZE},
    scenario,
};

/// The versions that changed something here, from the oldest that is supported to one that is newer than all.
const VERSIONS: &[u32] =
    &[11030, 11040, 11050, 11080, 12000, 12010, 12020, 12030, 12060, 12080, 12090, 13000, 13010, 13020, 14000];

/// What an operation starts from.
struct Ground {
    device: Device,
    context: Context,
    stream: Stream,
    /// One that somebody else made.
    foreign: MemPool,
}

/// How it is told that a driver is too old.
enum Lacks {
    Entry(Symbol),
    PoolAttribute(PoolAttribute),
    Property(&'static str),
    DeviceAttribute,
}

impl Lacks {
    fn is(&self, error: &Error, since: u32) -> bool {
        match self {
            Self::Entry(symbol) => *error == Error::Unsupported(*symbol),
            Self::PoolAttribute(attribute) => *error == Error::AttributeUnsupported(*attribute),
            Self::Property(property) => *error == Error::PropertyUnsupported { property, since },
            Self::DeviceAttribute => error.code() == Some(CUresult::CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// An operation, the version that introduced it, and what drivers before that are told to lack.
type Newer = (&'static str, u32, Lacks, fn(&Ground) -> Result<()>);

const NEWER: &[Newer] = &[
    ("Stream::id", 12000, Lacks::Entry(Symbol::cuStreamGetId), |ground| ground.stream.id().map(drop)),
    ("default_at", 13000, Lacks::Entry(Symbol::cuMemGetDefaultMemPool), |ground| {
        MemPool::default_at(&ground.device, MemPoolLocation::Device, MemKind::Pinned).map(drop)
    }),
    ("current_at", 13000, Lacks::Entry(Symbol::cuMemGetMemPool), |ground| {
        // SAFETY: the pool is not used.
        unsafe { MemPool::current_at(&ground.device, MemPoolLocation::Device, MemKind::Pinned) }.map(drop)
    }),
    ("a limit", 12020, Lacks::Property("a size limit"), |ground| make(ground, properties().max_size(POOL_SIZE))),
    ("a NUMA node", 12020, Lacks::Property("memory of a NUMA node"), |ground| {
        make(ground, properties().location(MemPoolLocation::HostNuma(0)))
    }),
    ("the nearest NUMA node", 12020, Lacks::Property("memory of a NUMA node"), |ground| {
        make(ground, properties().location(MemPoolLocation::NearestHostNuma))
    }),
    ("fabric handles", 12030, Lacks::Property("fabric handles"), |ground| {
        make(ground, properties().handle_types(MemHandleTypes::FABRIC))
    }),
    ("hardware decompression", 12080, Lacks::Property("memory for hardware decompression"), |ground| {
        make(ground, properties().hw_decompress(true))
    }),
    ("host memory", 13000, Lacks::Property("host memory"), |ground| {
        make(ground, properties().location(MemPoolLocation::Host))
    }),
    ("managed memory", 13000, Lacks::Property("managed memory"), |ground| {
        make(ground, properties().kind(MemKind::Managed))
    }),
    ("managed memory anywhere", 13000, Lacks::Property("managed memory"), |ground| {
        make(ground, properties().kind(MemKind::Managed).location(MemPoolLocation::Unspecified))
    }),
    ("MemPool::location", 13020, Lacks::PoolAttribute(PoolAttribute::CU_MEMPOOL_ATTR_LOCATION_TYPE), |ground| {
        ground.foreign.location().map(drop)
    }),
    ("MemPool::kind", 13020, Lacks::PoolAttribute(PoolAttribute::CU_MEMPOOL_ATTR_ALLOCATION_TYPE), |ground| {
        ground.foreign.kind().map(drop)
    }),
    ("MemPool::max_size", 13020, Lacks::PoolAttribute(PoolAttribute::CU_MEMPOOL_ATTR_MAX_POOL_SIZE), |ground| {
        ground.foreign.max_size().map(drop)
    }),
    (
        "MemPool::handle_types",
        13020,
        Lacks::PoolAttribute(PoolAttribute::CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES),
        |ground| ground.foreign.handle_types().map(drop),
    ),
    (
        "MemPool::hw_decompress",
        13020,
        Lacks::PoolAttribute(PoolAttribute::CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED),
        |ground| ground.foreign.hw_decompress().map(drop),
    ),
    ("Device::ipc_event_supported", 12000, Lacks::DeviceAttribute, |ground| {
        ground.device.ipc_event_supported().map(drop)
    }),
    ("Device::host_numa_id", 12020, Lacks::DeviceAttribute, |ground| ground.device.host_numa_id().map(drop)),
    ("Device::fabric_handle_supported", 12030, Lacks::DeviceAttribute, |ground| {
        ground.device.fabric_handle_supported().map(drop)
    }),
    ("Device::host_numa_memory_pools_supported", 12090, Lacks::DeviceAttribute, |ground| {
        ground.device.host_numa_memory_pools_supported().map(drop)
    }),
    ("Device::host_memory_pools_supported", 13000, Lacks::DeviceAttribute, |ground| {
        ground.device.host_memory_pools_supported().map(drop)
    }),
];

const fn properties() -> MemPoolProperties {
    MemPoolProperties::new()
}

/// Makes such a pool, and has the device use it.
fn make(ground: &Ground, properties: MemPoolProperties) -> Result<()> {
    let pool = MemPool::with_properties(&ground.device, &properties)?;
    let mut buffer = pool.alloc_from_host(&[1_u32; 100], &ground.stream)?;
    buffer.slice_mut(..50)?.fill(2)?;
    assert_eq!(buffer.to_vec()?, [[2; 50], [1; 50]].concat());
    Ok(())
}

/// A device that can do all that its driver knows of.
fn driver_of(version: u32) -> Fixture {
    let decompresses = Attribute::CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK;
    Fixture::with(Simulator::builder().driver_version(version).attribute(decompresses, 1))
}

#[test]
fn each_driver_does_what_it_has_and_is_said_to_lack_the_rest() {
    for version in VERSIONS {
        let fixture = driver_of(*version);
        let (device, context, stream) = (fixture.device(), fixture.context(), fixture.stream());
        let raw = MemPool::new(&device).unwrap().into_raw();
        // SAFETY: the pool was just given up.
        let foreign = unsafe { MemPool::from_raw(device, raw) };
        let ground = Ground { device, context, stream, foreign };
        for (operation, since, lacks, run) in NEWER {
            match run(&ground) {
                Ok(()) => assert!(version >= since, "{operation} works on {version}"),
                Err(error) => {
                    assert!(version < since, "{operation} on {version}: {error}");
                    assert!(lacks.is(&error, *since), "{operation} on {version}: {error:?}");
                    let introduced = format!("(introduced in CUDA {}.{})", since / 1000, since % 1000 / 10);
                    let says = matches!(lacks, Lacks::DeviceAttribute) || error.to_string().ends_with(&introduced);
                    assert!(says, "{error}");
                }
            }
        }
        ground.context.synchronize().unwrap();
        assert_eq!(MemPool::destroy_dropped(fixture.driver()), Ok(0), "{version}");
        // The one that somebody else made; and nothing that was refused had been made.
        assert_eq!(fixture.sim().live().pools, 1, "{version}");
    }
}

#[test]
fn each_driver_does_everything_but_what_is_newer() {
    for version in VERSIONS {
        let fixture = driver_of(*version);
        for (operation, error) in scenario::everything(fixture.driver()) {
            let since = match error {
                Error::Unsupported(symbol) => symbol.since(),
                Error::PropertyUnsupported { since, .. } => since,
                other => panic!("{operation} on {version}: {other}"),
            };
            assert!(*version < since, "{operation} on {version}: {error}");
        }
    }
}

#[test]
fn own_pools_say_what_they_were_made_as_on_every_driver() {
    for version in VERSIONS {
        let fixture = driver_of(*version);
        let pool = MemPool::new(&fixture.device()).unwrap();
        assert_eq!(pool.location(), Ok(Some(MemPoolLocation::Device)), "{version}");
        assert_eq!(pool.kind(), Ok(Some(MemKind::Pinned)));
        assert_eq!((pool.max_size(), pool.handle_types()), (Ok(0), Ok(MemHandleTypes::NONE)));
        assert_eq!(pool.hw_decompress(), Ok(false));
    }
}
