//! What errors say.

use cupool::{DriverError, Error, Event, Stream};
use cupool_sim::{CUresult, Symbol};

use crate::fixture::Fixture;

fn failing(fixture: &Fixture, code: u32) -> Error {
    let stream = fixture.stream();
    fixture.sim().fail(Symbol::cuStreamSynchronize, 0, CUresult(code));
    stream.synchronize().unwrap_err()
}

#[test]
fn a_drivers_refusal_names_the_call_the_code_and_what_to_do() {
    let fixture = Fixture::simulated();
    let text = |code| failing(&fixture, code).to_string();
    assert_eq!(text(1), "cuStreamSynchronize returned CUDA_ERROR_INVALID_VALUE (1)");
    assert_eq!(text(9999), "cuStreamSynchronize returned 9999, a code newer than this crate");
    assert_eq!(
        text(700),
        "cuStreamSynchronize returned CUDA_ERROR_ILLEGAL_ADDRESS (700); the fault may be of earlier work, and lasts"
    );
    assert_eq!(
        text(4),
        "cuStreamSynchronize returned CUDA_ERROR_DEINITIALIZED (4); the process is exiting and the driver has shut down"
    );
}

#[test]
fn an_error_gives_its_code_and_call() {
    let fixture = Fixture::simulated();
    let error = failing(&fixture, 700);
    assert!(error.is_sticky());
    assert_eq!(error.code(), Some(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
    let Error::Driver(driver) = error else { panic!("{error:?}") };
    assert_eq!((driver.code(), driver.call()), (CUresult(700), Symbol::cuStreamSynchronize));
    assert_eq!(Error::from(driver), error);
    let _: &dyn std::error::Error = &driver;
    assert_eq!(size_of::<DriverError>(), 8);
}

#[test]
fn a_refused_answer_does_not_last_unless_the_device_is_at_fault() {
    let fixture = Fixture::simulated();
    let stream = fixture.stream();
    for code in [1, 2, 201, 400, 700, 9999] {
        fixture.sim().fail(Symbol::cuStreamQuery, 0, CUresult(code));
        assert_eq!(stream.query().unwrap_err().code(), Some(CUresult(code)));
        assert_eq!(stream.query(), Ok(true));
    }
}

#[test]
fn not_ready_is_an_answer_of_queries_only() {
    let fixture = Fixture::simulated();
    let (context, stream) = (fixture.context(), fixture.stream());
    let event = Event::new(&context).unwrap();
    fixture.sim().fail(Symbol::cuStreamQuery, 0, CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(stream.query(), Ok(false));
    fixture.sim().fail(Symbol::cuEventQuery, 0, CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(event.query(), Ok(false));
    fixture.sim().fail(Symbol::cuStreamSynchronize, 0, CUresult::CUDA_ERROR_NOT_READY);
    assert_eq!(stream.synchronize().unwrap_err().code(), Some(CUresult::CUDA_ERROR_NOT_READY));
}

#[test]
fn a_fault_of_the_device_is_sticky_and_everything_reports_it() {
    let fixture = Fixture::unchecked();
    let (context, pool, stream) = (fixture.context(), fixture.pool(), fixture.stream());
    let mut buffer = pool.alloc_zeroed::<u8, _>(100, &stream).unwrap();
    fixture.sim().inject_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
    let errors = [
        buffer.fill(1).unwrap_err(),
        buffer.to_vec().unwrap_err(),
        stream.synchronize().unwrap_err(),
        context.synchronize().unwrap_err(),
        pool.alloc::<u8, _>(1, &stream).unwrap_err(),
        Stream::new(&context).unwrap_err(),
    ];
    assert!(errors.iter().all(Error::is_sticky), "{errors:?}");
    drop(buffer);
    drop((stream, pool, context));
}

#[test]
fn errors_compare_and_are_cheap_to_move() {
    let fixture = Fixture::simulated();
    assert_eq!(failing(&fixture, 1), failing(&fixture, 1));
    assert_ne!(failing(&fixture, 1), failing(&fixture, 2));
    assert!(size_of::<Error>() <= 24);
}
