//! What the tests with a whole collector share.

use fabriclens::serve::{self, Running};
use fabriclens_config::Config;
use std::time::Duration;

/// Starts a collector on free ports, without metrics about itself.
pub async fn collector(dir: &std::path::Path) -> Running {
    let mut config = Config { data: dir.join("data"), ..Config::default() };
    config.listen.http.set_port(0);
    config.listen.otlp_grpc.set_port(0);
    config.listen.otlp_http.set_port(0);
    config.self_metrics_interval = Duration::ZERO;
    serve::start(config).await.unwrap()
}
