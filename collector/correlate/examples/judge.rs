//! Development aid.
use fabriclens_correlate::*;
use fabriclens_promql::{Engine, Limits};
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut incidents = Vec::new();
    let hosts_only = std::env::args().any(|a| a == "hosts");
    for dir in std::env::args().skip(1).filter(|a| std::path::Path::new(a).is_dir()) {
        let how = recording::ReadAs {
            stretch: if std::env::args().any(|a| a == "--stretch") { 1000 } else { 1 },
            hosts_only,
        };
        let r = recording::Recording::read(dir.as_ref(), how)?;
        let step = r.ticks_ms.windows(2).map(|w| w[1] - w[0]).min().unwrap_or(1000);
        let engine = Engine::new(Limits::default());
        let fs = frames(&engine, &r.memory, &r.fabric, &r.ticks_ms, step)?;
        let mut watch = Watch::new(r.fabric);
        for f in fs {
            incidents.extend(watch.tick(f));
        }
        incidents.extend(watch.open());
    }
    println!("{}", serde_json::json!({ "incidents": incidents }));
    Ok(())
}
