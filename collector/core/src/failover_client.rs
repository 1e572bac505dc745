//! A client of one server at several URLs, of which one answers: a judge and its standbys, or simply one server.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fabriclens_config as config;

use crate::endpoint::{Client, FileError};
use crate::telemetry::Telemetry;

/// Clients of all URLs; the one that answered last is asked first.
pub struct FailoverClient {
    clients: Vec<Client>,
    active: AtomicUsize,
}

/// No URL gave an answer that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// When to try again, if all servers said so.
    pub after: Option<Duration>,
    /// URLs and causes.
    pub why: String,
}

impl FailoverClient {
    /// Creates a client of these endpoints.
    ///
    /// # Errors
    /// [`FileError`] if a password, token or authority file cannot be used.
    pub fn new<'a>(
        endpoints: impl IntoIterator<Item = &'a config::Endpoint>,
        telemetry: &Telemetry,
    ) -> Result<Self, FileError> {
        let clients =
            endpoints.into_iter().map(|endpoint| Client::new(endpoint, telemetry)).collect::<Result<_, _>>()?;
        Ok(Self { clients, active: AtomicUsize::new(0) })
    }

    /// URL that answered last, or the first one.
    pub fn url(&self) -> &str {
        self.clients.get(self.active.load(Ordering::Relaxed)).map_or("", Client::url)
    }

    /// All clients, in the order of the configuration.
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    /// Asks one URL after the other until one gives an answer that decides.
    ///
    /// # Errors
    /// [`Unanswered`] with the causes of all.
    pub fn ask<T>(&self, mut attempt: impl FnMut(&Client) -> Result<T, Unanswered>) -> Result<T, Unanswered> {
        let first = self.active.load(Ordering::Relaxed);
        let mut all: Option<Unanswered> = None;
        for step in 0..self.clients.len() {
            let at = (first + step) % self.clients.len();
            match attempt(&self.clients[at]) {
                Ok(answer) => {
                    if step > 0 {
                        tracing::info!(url = self.clients[at].url(), "another server answers");
                        self.active.store(at, Ordering::Relaxed);
                    }
                    return Ok(answer);
                }
                Err(one) => {
                    all = Some(match all {
                        None => one,
                        Some(before) => Unanswered {
                            after: before.after.zip(one.after).map(|(a, b)| a.min(b)),
                            why: format!("{}; {}", before.why, one.why),
                        },
                    });
                }
            }
        }
        Err(all.unwrap_or_else(|| Unanswered { after: None, why: "no URL is configured".to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(urls: &[&str]) -> FailoverClient {
        let endpoint = |url: &&str| config::Endpoint {
            url: (*url).to_owned(),
            username: None,
            password_file: None,
            bearer_token_file: None,
            ca: None,
            headers: [].into(),
            timeout: Duration::from_secs(1),
        };
        let endpoints: Vec<_> = urls.iter().map(endpoint).collect();
        FailoverClient::new(&endpoints, &Telemetry::new().unwrap()).unwrap()
    }

    fn no(after: Option<u64>, why: &str) -> Unanswered {
        Unanswered { after: after.map(Duration::from_secs), why: why.to_owned() }
    }

    #[test]
    fn the_url_that_answered_is_asked_first() {
        let client = client(&["http://a", "http://b", "http://c"]);
        let ask = |up: &str| {
            let mut asked = String::new();
            let answer = client.ask(|one| {
                let name = one.url().trim_start_matches("http://").to_owned();
                asked.push_str(&name);
                if up == name { Ok(name) } else { Err(no(None, &name)) }
            });
            (asked, answer)
        };
        assert_eq!(ask("b"), ("ab".into(), Ok("b".into())));
        assert_eq!(ask("b").0, "b");
        assert_eq!(client.url(), "http://b");
        assert_eq!(ask("a").0, "bca");
        assert_eq!(ask("-"), ("abc".into(), Err(no(None, "a; b; c"))));
        assert_eq!(client.url(), "http://a");
    }

    #[test]
    fn the_shortest_delay_counts_if_all_have_one() {
        let of = |afters: [Option<u64>; 2]| {
            let mut afters = afters.into_iter();
            let asked = client(&["http://a", "http://b"]).ask::<()>(|_| Err(no(afters.next().unwrap(), "x")));
            asked.unwrap_err().after
        };
        assert_eq!(of([Some(9), Some(2)]), Some(Duration::from_secs(2)));
        assert_eq!(of([None, Some(2)]), None);
    }
}
