//! What the ranks waited for, and whether the library's view and the counters of the network agree.

use super::bandwidth::SLOWER;
use crate::model::{Bandwidth, Conclusion, RankNetwork, RankStraggler, Report, Unit, WaitsFor};
use crate::render::words::{clock, duration, percent, value};

/// Share of the job's time from which a straggler, or time lost to the network, is worth a sentence.
const NOTICED: f64 = 0.01;
/// Bus bandwidth, relative to the usual one, from which operations were not slower.
const AS_USUAL: f64 = 0.95;

/// The conclusion from all sections of a report; `None` if no agent read collectives.
pub(in crate::build) fn conclusion(report: &Report) -> Option<Conclusion> {
    let collectives = &report.collectives;
    if collectives.is_empty() {
        return None;
    }
    let seconds = (report.range.end_ns - report.range.start_ns) as f64 / 1e9;
    let cost = report.summary.cost.at_most_share.largest();
    let worth = |s: &&RankStraggler| s.reason != "late" && s.reason != "behind" || s.seconds >= NOTICED * seconds;
    let stragglers: Vec<&RankStraggler> = collectives.stragglers.iter().filter(worth).collect();
    let troubled = stragglers.iter().find(|s| s.network == RankNetwork::Troubled);
    Some(match (troubled.or(stragglers.first()), &collectives.bandwidth) {
        (Some(straggler), _) => of_straggler(straggler, stragglers.len() - 1, cost),
        (None, Some(bandwidth)) => of_bandwidth(bandwidth, cost),
        (None, None) => says(WaitsFor::Nothing, None, "No rank stayed behind the others.".to_owned()),
    })
}

fn says(waits_for: WaitsFor, agree: Option<bool>, text: String) -> Conclusion {
    Conclusion { waits_for, agree, text }
}

fn of_straggler(straggler: &RankStraggler, others: usize, cost: Option<f64>) -> Conclusion {
    let RankStraggler { host, rank, start_ns, seconds, network, text, .. } = straggler;
    let place = if host.is_empty() { rank.clone() } else { format!("{host}, {rank}") };
    let more = match others {
        0 => String::new(),
        1 => " One more straggler is listed below.".to_owned(),
        n => format!(" {n} more stragglers are listed below."),
    };
    let what = format!("{place}: from {} for {} it {text}", clock(*start_ns, true), duration(*seconds));
    let lost = cost.filter(|share| *share >= NOTICED);
    match network {
        RankNetwork::Troubled => says(
            WaitsFor::OnePeer,
            Some(true),
            format!("The job waited for one rank, and the counters show why. {what}.{more}"),
        ),
        RankNetwork::Clean => {
            let own = "The job waited for one rank, which waited for its own GPU, CPU or data and not for the network";
            match lost {
                None => says(WaitsFor::OwnWork, Some(true), format!("{own}. {what}.{more}")),
                Some(share) => {
                    let also = format!(
                        "Counters show that the network cost the job up to {} of its time as well, elsewhere",
                        percent(share)
                    );
                    says(WaitsFor::OwnWork, Some(false), format!("{own}. {what}. {also}.{more}"))
                }
            }
        }
        RankNetwork::LikeOthers => says(
            WaitsFor::Fabric,
            Some(true),
            format!("The job waited for one rank, whose ports were held back as all were. {what}.{more}"),
        ),
        RankNetwork::Unknown => says(WaitsFor::Unknown, None, format!("The job waited for one rank. {what}.{more}")),
    }
}

fn of_bandwidth(bandwidth: &Bandwidth, cost: Option<f64>) -> Conclusion {
    let Bandwidth { operation, size, usual, slowed, unexplained, .. } = bandwidth;
    let name = format!("{operation} from {size}");
    let rate = |bytes: f64| value(bytes, Unit::BytesPerSecond);
    let lost = cost.filter(|share| *share >= NOTICED);
    let nobody = "No rank stayed behind the others";
    match (usual, slowed, unexplained, lost) {
        (Some(usual), Some(slowed), ..) if *slowed < SLOWER * usual => {
            let text = format!(
                "All ranks waited alike, for the fabric: while counters show that the network held the job back, the bus \
                 bandwidth of {name} was {}, and {} otherwise.",
                rate(*slowed),
                rate(*usual)
            );
            says(WaitsFor::Fabric, Some(true), text)
        }
        (Some(usual), _, Some(dip), _) => {
            let text = format!(
                "{nobody}. From {} for {} the bus bandwidth of {name} was {}, and {} otherwise, and no counter that was read \
                 shows a reason: look at GPUs, NVLink and switches that are not read.",
                clock(dip.start_ns, true),
                duration(dip.seconds),
                rate(dip.mean),
                rate(*usual)
            );
            says(WaitsFor::Unknown, Some(false), text)
        }
        (Some(usual), Some(slowed), None, Some(share)) if *slowed >= AS_USUAL * usual => {
            let text = format!(
                "Counters show that the network cost the job up to {} of its time, but its collectives were as fast then: {name} \
                 had {}, and {} otherwise. The lower bound is nearer to the truth.",
                percent(share),
                rate(*slowed),
                rate(*usual)
            );
            says(WaitsFor::Nothing, Some(false), text)
        }
        (.., None) if cost.is_some() => {
            let text = format!("{nobody}, and no counter shows that the network held the job back.");
            says(WaitsFor::Nothing, Some(true), text)
        }
        _ => says(WaitsFor::Unknown, None, format!("{nobody}.")),
    }
}
