//! The methods of gNMI.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fabriclens_gnmi::proto::{
    CapabilityRequest, CapabilityResponse, Encoding, Mode, ModelData, Notification, Path, Request as Kind,
    Response as Answer, SubscribeRequest, SubscribeResponse, SubscriptionList, TypedValue, Update, Value,
};
use futures_util::stream::BoxStream;
use tokio::sync::{broadcast, mpsc};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::server::{Grpc, NamedService, StreamingService, UnaryService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::rules::Fault;
use crate::state::{Values, covers, paths};

type Future_<T> = Pin<Box<dyn Future<Output = T> + Send>>;
type Answers = BoxStream<'static, Result<SubscribeResponse, Status>>;

/// The service `gnmi.gNMI`.
#[derive(Clone)]
pub(crate) struct Gnmi(pub(crate) Arc<Values>);

impl NamedService for Gnmi {
    const NAME: &'static str = "gnmi.gNMI";
}

impl Service<http::Request<Body>> for Gnmi {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Future_<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/gnmi.gNMI/Subscribe" => Grpc::new(ProstCodec::default()).streaming(this, request).await,
                "/gnmi.gNMI/Capabilities" => Grpc::new(ProstCodec::default()).unary(this, request).await,
                _ => Status::unimplemented("only Capabilities and Subscribe").into_http(),
            })
        })
    }
}

impl UnaryService<CapabilityRequest> for Gnmi {
    type Response = CapabilityResponse;
    type Future = Future_<Result<Response<CapabilityResponse>, Status>>;

    fn call(&mut self, request: Request<CapabilityRequest>) -> Self::Future {
        let rules = &self.0.rules;
        let known = rules.check_login(request.metadata());
        let (name, encoding) = match rules.tables {
            true => ("sonic-db", [Encoding::Json, Encoding::JsonIetf]),
            false => ("openconfig-interfaces", [Encoding::Json, Encoding::Proto]),
        };
        let model = ModelData { name: name.to_owned(), ..ModelData::default() };
        let answer = CapabilityResponse {
            supported_models: vec![model],
            supported_encodings: encoding.map(i32::from).to_vec(),
            version: "0.7.0".to_owned(),
        };
        Box::pin(async move { known.map(|()| Response::new(answer)) })
    }
}

impl StreamingService<SubscribeRequest> for Gnmi {
    type Response = SubscribeResponse;
    type ResponseStream = Answers;
    type Future = Future_<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<SubscribeRequest>>) -> Self::Future {
        let values = self.0.clone();
        Box::pin(async move {
            values.rules.check_login(request.metadata())?;
            let mut requests = request.into_inner();
            let first = requests.message().await?.and_then(|request| request.request);
            let Some(Kind::Subscribe(list)) = first else {
                return Err(Status::invalid_argument("first message must be SubscriptionList"));
            };
            values.called(&list);
            let interval = values.rules.interval(&list)?;
            if values.rules.fault == Some(Fault::Silent) {
                std::future::pending::<()>().await;
            }
            let unknown = values.rules.tables && paths(&list) != ["EVENTS/all"] && values.sample(&list).is_none();
            if unknown {
                return Err(Status::not_found(format!("No valid entry found on {:?}", paths(&list))));
            }
            let (send, answers) = mpsc::channel(4);
            tokio::spawn(answer(values, list, interval, requests, send));
            Ok(Response::new(Box::pin(ReceiverStream::new(answers)) as Answers))
        })
    }
}

fn update(notification: Notification) -> SubscribeResponse {
    SubscribeResponse { response: Some(Answer::Update(notification)) }
}

/// Sends samples and changes until the client goes.
async fn answer(
    values: Arc<Values>,
    list: SubscriptionList,
    interval: Option<Duration>,
    mut requests: Streaming<SubscribeRequest>,
    send: mpsc::Sender<Result<SubscribeResponse, Status>>,
) -> Option<()> {
    let mut changes = values.changes();
    if let Some(sample) = values.sample(&list) {
        send.send(Ok(update(sample))).await.ok()?;
    }
    send.send(Ok(SubscribeResponse { response: Some(Answer::SyncResponse(true)) })).await.ok()?;
    if list.mode() == Mode::Once {
        return None;
    }
    match values.rules.fault {
        Some(Fault::Ends) => return None,
        Some(Fault::Huge) => send.send(Ok(update(filler(64 << 20)))).await.ok()?,
        Some(Fault::Garbage) => {
            let path = Path { element: vec!["x".repeat(5000)], ..Path::default() };
            let bad = Notification { prefix: Some(path), ..Notification::default() };
            send.send(Ok(update(bad))).await.ok()?;
        }
        Some(Fault::Flood) => loop {
            send.send(Ok(update(filler(1 << 20)))).await.ok()?;
        },
        _ => {}
    }
    let asked = paths(&list);
    // A client that only wants changes gets them; so does one that samples, of what is deleted.
    let mut ticks = tokio::time::interval(interval.unwrap_or(Duration::from_secs(2)));
    ticks.tick().await;
    let mut open = true;
    loop {
        tokio::select! {
            _ = ticks.tick() => match (interval, values.sample(&list)) {
                (Some(_), Some(sample)) => send.send(Ok(update(sample))).await.ok()?,
                _ if asked == ["EVENTS/all"] => send.send(Ok(update(heartbeat(values.notification("EVENTS/all"))))).await.ok()?,
                _ => {}
            },
            change = changes.recv() => match change {
                Ok((path, change)) if asked.iter().any(|asked| covers(asked, &path)) => {
                    if interval.is_none() || !change.delete.is_empty() {
                        send.send(Ok(update(change))).await.ok()?;
                    }
                }
                Ok(_) | Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            },
            request = requests.next(), if open => match request {
                // Clients may close their side.
                None => open = false,
                Some(Ok(_)) => {
                    let status = Status::invalid_argument("only one SubscriptionList in a stream");
                    send.send(Err(status)).await.ok()?;
                }
                Some(Err(_)) => return None,
            },
        }
    }
}

/// What SONiC's stream of events sends while nothing happens.
fn heartbeat(empty: Notification) -> Notification {
    let value =
        Value::JsonIetf(br#"{"sonic-events-eventd:heartbeat":{"timestamp":"2026-01-01T00:00:00.000000Z"}}"#.to_vec());
    let path = Path { elem: fabriclens_gnmi::parse("all[heartbeat=5]").elem, ..Path::default() };
    Notification {
        update: vec![Update { path: Some(path), val: Some(TypedValue { value: Some(value) }), duplicates: 0 }],
        ..empty
    }
}

/// A value of so many bytes.
fn filler(bytes: usize) -> Notification {
    let value = TypedValue { value: Some(Value::String("x".repeat(bytes))) };
    let path = fabriclens_gnmi::parse("filler/a/b");
    Notification {
        update: vec![Update { path: Some(path), val: Some(value), duplicates: 0 }],
        ..Notification::default()
    }
}
