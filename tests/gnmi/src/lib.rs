//! A switch for tests: it answers gNMI with values that a test gives it, by the rules of SONiC or of Cumulus.

#![forbid(unsafe_code)]

mod rules;
mod service;
mod state;

pub use rules::{Fault, Rules};
pub use state::Values;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::{Server, ServerTlsConfig};

/// A running switch; it ends with all connections when it is dropped.
#[derive(Debug)]
pub struct Switch {
    /// Where it listens.
    pub address: SocketAddr,
    /// What it tells.
    pub values: Arc<Values>,
    runtime: Option<Runtime>,
}

impl Switch {
    /// Starts a switch at a free port of the loopback address, or at this one.
    ///
    /// # Errors
    /// If the port is taken or the certificates are unusable.
    pub fn start(
        address: Option<SocketAddr>,
        rules: Rules,
        tls: Option<ServerTlsConfig>,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let address = address.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 0)));
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let values = Arc::new(Values::new(rules));
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls)?;
        }
        let router = server.add_service(service::Gnmi(values.clone()));
        runtime.spawn(async move {
            if let Ok(listener) = TcpListener::from_std(listener) {
                // A failed connection is the test's business.
                drop(router.serve_with_incoming(TcpListenerStream::new(listener)).await);
            }
        });
        Ok(Self { address, values, runtime: Some(runtime) })
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
