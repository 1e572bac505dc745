//! Errors in one line for logs and messages.

use std::error::Error;

/// An error and its causes, separated by `: `.
pub fn with_causes(error: &dyn Error) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// A text, and the causes of an error that the text does not contain. HTTP libraries write some causes into the text of the
/// error itself.
pub fn with_new_causes(text: &str, error: &dyn Error) -> String {
    causes(error).fold(text.to_owned(), |text, cause| {
        let cause = cause.to_string();
        if text.contains(&cause) { text } else { format!("{text}: {cause}") }
    })
}

/// The cause of an error that has no further one; the error itself if it has none.
pub fn root(error: &dyn Error) -> &dyn Error {
    let mut root = error;
    while let Some(cause) = root.source() {
        root = cause;
    }
    root
}

fn causes(error: &dyn Error) -> impl Iterator<Item = &dyn Error> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failure(&'static str, #[source] Option<Box<Failure>>);

    #[test]
    fn causes_follow_their_error() {
        let error =
            Failure("cannot connect", Some(Box::new(Failure("dns", Some(Box::new(Failure("no such host", None)))))));
        assert_eq!(with_causes(&error), "cannot connect: dns: no such host");
        assert_eq!(with_new_causes("dns failed", &error), "dns failed: no such host");
        assert_eq!(root(&error).to_string(), "no such host");
        assert_eq!(root(&Failure("alone", None)).to_string(), "alone");
    }
}
