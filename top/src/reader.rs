//! The thread that reads: the screen answers keys while a server is slow.

use crate::source::{Snapshot, Source};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Requests and replies that wait at most; a key pressed while so many wait does nothing.
const WAITING: usize = 8;

/// What the thread is asked for.
#[derive(Debug)]
pub enum Request {
    /// All tables, now.
    Read,
    /// A row in full: table and identity.
    Detail(usize, String),
}

/// What the thread has read.
#[derive(Debug)]
pub enum Reply {
    /// All tables.
    Read(Result<Snapshot, String>),
    /// A row in full.
    Detail(usize, String, Result<String, String>),
}

/// Ends of the channels to the thread. It ends when they are dropped, after what it reads at that time.
#[derive(Debug)]
pub struct Reader {
    /// Requests.
    pub requests: SyncSender<Request>,
    /// Replies.
    pub replies: Receiver<Reply>,
}

impl Reader {
    /// Starts the thread, which reads all tables at once and then each `interval`.
    pub fn start(source: impl Source + 'static, interval: Duration) -> Self {
        let (requests, asked) = sync_channel(WAITING);
        let (tell, replies) = sync_channel(WAITING);
        std::thread::spawn(move || read_until_closed(source, interval, &asked, &tell));
        Self { requests, replies }
    }
}

fn read_until_closed(mut source: impl Source, interval: Duration, asked: &Receiver<Request>, tell: &SyncSender<Reply>) {
    let mut due = Instant::now();
    loop {
        let reply = match asked.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Ok(Request::Detail(table, id)) => {
                let text = source.detail(table, &id);
                Reply::Detail(table, id, text)
            }
            Ok(Request::Read) | Err(RecvTimeoutError::Timeout) => {
                let read = source.read();
                // From the end of the reading: a slow server is not asked without a pause.
                due = Instant::now() + interval;
                Reply::Read(read)
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if tell.send(reply).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counted(u32);

    impl Source for Counted {
        fn read(&mut self) -> Result<Snapshot, String> {
            self.0 += 1;
            Ok(Snapshot { summary: self.0.to_string(), tables: Vec::new() })
        }

        fn detail(&mut self, table: usize, id: &str) -> Result<String, String> {
            Ok(format!("{table} {id}"))
        }
    }

    #[test]
    fn tables_are_read_each_interval_and_when_asked_for() {
        let reader = Reader::start(Counted(0), Duration::from_secs(3600));
        let next = || reader.replies.recv_timeout(Duration::from_secs(10)).unwrap();
        assert!(matches!(next(), Reply::Read(Ok(read)) if read.summary == "1"));
        reader.requests.send(Request::Detail(1, "x".to_owned())).unwrap();
        assert!(matches!(next(), Reply::Detail(1, id, Ok(text)) if id == "x" && text == "1 x"));
        reader.requests.send(Request::Read).unwrap();
        assert!(matches!(next(), Reply::Read(Ok(read)) if read.summary == "2"));

        let often = Reader::start(Counted(0), Duration::from_millis(1));
        for count in 1..4 {
            let read = often.replies.recv_timeout(Duration::from_secs(10)).unwrap();
            assert!(matches!(read, Reply::Read(Ok(read)) if read.summary == count.to_string()));
        }
    }
}
