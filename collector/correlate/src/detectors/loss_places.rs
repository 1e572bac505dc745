//! Which places explain lost probes: the one that explains most first, then what explains most of the rest.

use crate::detectors::loss_votes::{LossVotes, Place, Suspect};
use crate::model::fabric::Fabric;
use crate::model::routes::probes::Probe;

/// A place with the lost probes that it explains, and other places that are nearly as likely.
pub(super) struct Explained<'a> {
    pub best: Place,
    pub near: Vec<Place>,
    pub on: Vec<(&'a Probe, f64)>,
}

/// Bounds of an explanation.
pub(super) struct Bounds {
    /// Places that are named, at most.
    pub most: usize,
    /// Least logarithm of how much likelier the losses are with the place at fault than without any fault.
    pub gain: f64,
    /// Logarithm of how much likelier it must be than others, otherwise these are near.
    pub ahead: f64,
}

/// Takes places and the losses that they explain out of the votes, while one explains enough.
pub(super) fn explain<'a>(fabric: &Fabric, votes: &mut LossVotes<'a>, bounds: &Bounds) -> Vec<Explained<'a>> {
    let mut explained = Vec::new();
    while explained.len() < bounds.most {
        let Some((best, near)) = best(fabric, votes, bounds) else { break };
        let on = votes.take(&best);
        explained.push(Explained { best, near, on });
    }
    explained
}

/// The place that explains most losses, if it is a fault, and others that are nearly as likely.
fn best(fabric: &Fabric, votes: &mut LossVotes<'_>, bounds: &Bounds) -> Option<(Place, Vec<Place>)> {
    let is_cable = |place: &Place| matches!(place.suspect, Suspect::Cable(_));
    let mut places = votes.places(fabric);
    let first = places.first().map_or(0.0, |place| place.gain);
    // Two links look like a fault of the switch or host that they have in common, unless both together explain more.
    if let Some(one) = places.iter().find(|place| is_cable(place)).filter(|one| one.gain < first) {
        let on = votes.take(one);
        let other = votes.places(fabric).into_iter().find(is_cable).map_or(0.0, |other| other.gain);
        let is_two = one.gain + other > first + bounds.gain;
        votes.lost.extend(on);
        if is_two {
            places.retain(is_cable);
        }
    }
    let mut places = places.into_iter();
    let best = places.next().filter(|place| place.gain >= bounds.gain)?;
    let near = places.filter(|place| place.gain > best.gain - bounds.ahead).collect();
    Some((best, near))
}
