//! Evaluates a range query in pieces where all of it at once would take more samples or memory than a query may have.

use fabriclens_model::Budget;
use fabriclens_promql::{Outcome, QueryError};

use super::memory::Grant;
use super::result_parts::{Steps, bytes, joined};

/// Part (1/n) of a piece that was too large that is tried next: each attempt reads until it is refused.
const SMALLER: i64 = 4;

/// The result of a range query that [`fabriclens_promql::looks_only_back`]. For want of memory it is divided only where no more can
/// be reserved.
pub(super) fn in_pieces(
    all: Steps,
    grant: &Grant,
    evaluate: impl Fn(Steps) -> Result<Outcome, QueryError>,
) -> Result<Outcome, QueryError> {
    let (mut most, mut next, mut done) = (all.count(), all.start, None);
    loop {
        let piece = Steps { start: next, end: all.end.min(next + (most - 1) * all.step), ..all };
        let before = grant.taken();
        let outcome = evaluate(piece);
        let too_large = match &outcome {
            Err(QueryError::TooManySamples { .. }) => true,
            Err(QueryError::Memory) => grant.more().is_none(),
            _ => false,
        };
        if too_large && most > 1 {
            grant.give_back(grant.taken().saturating_sub(before));
            most = (most / SMALLER).max(1);
            continue;
        }
        let outcome = outcome?;
        next = piece.last() + all.step;
        if next > all.end && done.is_none() {
            return Ok(outcome);
        }
        // Of a piece that is done, only the result is held.
        grant.give_back(grant.taken().saturating_sub(before));
        grant.request(bytes(&outcome))?;
        let so_far = match done.take() {
            Some(earlier) => joined(earlier, outcome),
            None => outcome,
        };
        if next > all.end {
            return Ok(so_far);
        }
        done = Some(so_far);
    }
}
