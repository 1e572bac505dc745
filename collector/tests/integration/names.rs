//! Names of metrics and labels: what is refused on each way in, what outputs leave out, and which names only the collector
//! writes.

use crate::common::{self, Collector, now_ms, now_ns, otlp, series};

/// A name that would be a line of its own in a text.
const FORGED: &str = "evil 1 1\nfabric_port_up{host=\"other\"}";

#[tokio::test]
async fn names_with_line_breaks_are_refused() {
    let c = Collector::start().await;
    let now = now_ms();
    let (status, text) = c
        .remote_write(vec![
            series(&[("__name__", FORGED), ("host", "h")], &[(now, 0.0)]),
            series(&[("__name__", "m"), ("host", "h"), ("a\nb", "x")], &[(now, 0.0)]),
            series(&[("__name__", "good"), ("host", "one\ntwo")], &[(now, 1.0)]),
        ])
        .await;
    assert!(status == 400 && text.starts_with("2 points rejected, all others are stored"), "{status} {text}");
    assert!(text.contains("has a control character") && !text.trim_end().contains('\n'), "{text}");
    let line = serde_json::json!({"metric": {"__name__": FORGED}, "values": [1], "timestamps": [now]});
    let import = format!("http://{}/api/v1/import", c.running.http);
    let (status, text) = common::post(import, &[], format!("{line}\n").into_bytes()).await;
    assert!(status == 400 && text.contains("has a control character"), "{status} {text}");
    let answer = c.grpc().await.export(otlp("h", FORGED, &[(1, now_ns(), 1)])).await.unwrap().into_inner();
    assert_eq!(answer.partial_success, None, "OTLP names are translated");

    let (status, text) = c.get("/federate?match[]={__name__!=%22%22}").await;
    assert_eq!(status, 200);
    assert!(text.contains("good{host=\"one\\ntwo\",instance=\"\"} 1 "), "{text}");
    assert!(text.lines().all(|line| !line.starts_with("fabric_port_up")), "{text}");
}

#[tokio::test]
async fn the_collectors_names_are_reserved() {
    let c = Collector::start().await;
    let (now, host) = (now_ms(), ("host", "h"));
    let all = || {
        let of = |name: &str| series(&[("__name__", name), host], &[(now, 1.0)]);
        ["fabric_incident_info", "fabric_job_info", "fabriclens_ingest_samples_total", "fabric_job_processes"]
            .map(of)
            .into()
    };
    let (status, text) = c.remote_write(all()).await;
    assert!(status == 400 && text.starts_with("3 points rejected, all others are stored"), "{status} {text}");
    assert!(text.contains("fabric_incident_info and the like are names that only the collector writes"), "{text}");
    let answer = c.grpc().await.export(otlp("h", "fabric.incident.info", &[(1, now_ns(), 1)])).await.unwrap();
    let partial = answer.into_inner().partial_success.unwrap();
    assert!(partial.rejected_data_points == 1 && partial.error_message.contains("only the collector"), "{partial:?}");
    let of_host = async |name: &str| c.value(&format!("{name}{{host=\"h\"}}")).await;
    assert_eq!((of_host("fabric_incident_info").await, of_host("fabric_job_processes").await), (None, Some(1.0)));
    // Another collector may forward them.
    let (status, text) = c.forwarded_write(all()).await;
    assert_eq!((status, text.as_str()), (204, ""));
    assert_eq!(of_host("fabric_incident_info").await, Some(1.0));
}
