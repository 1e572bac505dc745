use super::*;
use fabriclens_agent_host::roots::Roots;

fn core() -> Arc<Core> {
    let host = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/hosts/rxe");
    Arc::new(Core::new(Arc::new(Roots::new(Some(host.into()))), Settings { host: "h".into(), ..Settings::default() }))
}

#[test]
fn panicked_thread_is_reported() {
    let core = core();
    let thread = guarded(&core, "x", "the device x", |_| panic!("broken on purpose")).unwrap();
    thread.join().unwrap();
    let problems = core.thread_health.list(Instant::now());
    assert!(
        problems.len() == 1 && problems[0].starts_with("the device x: ") && problems[0].contains("broken on purpose"),
        "{problems:?}"
    );
}
