use super::*;
use fabriclens_agent_host::roots::Roots;

fn core() -> Arc<Core> {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/rxe");
    Arc::new(Core::new(Arc::new(Roots::new(Some(host.into()))), Settings { host: "h".into(), ..Settings::default() }))
}

#[test]
fn a_thread_that_fails_is_told() {
    let core = core();
    let thread = guarded(&core, "x", "the device x", |_| panic!("broken on purpose")).unwrap();
    thread.join().unwrap();
    let told = core.troubles.list(Instant::now());
    assert!(
        told.len() == 1 && told[0].starts_with("the device x: ") && told[0].contains("broken on purpose"),
        "{told:?}"
    );
}
