//! Failing transceivers: too hot, or with less and less receive power.

use crate::detectors::context::DetectorContext;
use crate::detectors::detector::Detector;
use crate::detectors::evidence::{evidence, name};
use crate::detectors::thresholds::thresholds;
use crate::model::finding::Finding;
use crate::model::kind::IncidentKind;
use crate::model::location::LocationId;
use crate::model::signal::Signal;
use crate::model::stats::mean;

pub(super) const DETECTOR: Detector = Detector {
    name: "optics",
    warm_up_s: 60.0,
    baseline_s: 0.0,
    looks_back: false,
    per_fault_domain: false,
    thresholds: THRESHOLDS,
    run,
};

thresholds! {
    /// temperature above which a module ages fast (UFM's link validation)
    HOT = "optics.temperature", 70.0, "degrees Celsius";
    /// loss of receive power since a day ago, or against the baseline
    LESS = "optics.light_lost", 3.0, "decibels";
    /// receive power below which most receivers fail
    DARK = "optics.light", -11.0, "dBm";
    /// receive power below which there is no light but a copper cable, or no measurement
    NONE = "optics.no_light", -40.0, "dBm";
}

fn run(ctx: &DetectorContext<'_>) -> Vec<Finding> {
    let judge = |port: usize| {
        let found = dark(ctx, port).or_else(|| hot(ctx, port))?;
        (ctx.window.last_value(Signal::Up, port) != Some(0.0)).then_some(found)
    };
    ctx.ports().filter_map(judge).collect()
}

/// A ratio in decibels.
fn decibels(ratio: f64) -> f64 {
    10.0 * ratio.log10()
}

/// Watts of a power in dBm.
fn watts(dbm: f64) -> f64 {
    10f64.powf(dbm / 10.0) / 1e3
}

fn dark(ctx: &DetectorContext<'_>, port: usize) -> Option<Finding> {
    ctx.mean(Signal::RxPower, port)?;
    let none = watts(ctx.threshold(&NONE));
    let light = mean(ctx.window.values(Signal::RxPower, port).filter(|watts| *watts > none))?;
    let before =
        ctx.window.last_value(Signal::RxPowerBefore, port).or_else(|| ctx.baseline_mean(Signal::RxPower, port));
    let dbm = decibels(light * 1e3);
    let lost = before.filter(|watts| *watts > none).map_or(0.0, |before| decibels(before / light));
    let (least, most) = (ctx.threshold(&DARK), ctx.threshold(&LESS));
    if dbm > least && lost < most {
        return None;
    }
    let threshold = if dbm <= least { watts(least) } else { light * 10f64.powf((lost - most) / 10.0) };
    let evidence = evidence(ctx, Signal::RxPower, port, light, threshold);
    let text = format!(
        "the weakest lane at {} receives {dbm:.1} dBm, {lost:.1} dB less than before: dirt, a bent fiber, or a \
         fading laser at the other end.",
        name(ctx, port)
    );
    let root = ctx.fabric.link_or_port(port);
    Some(Finding::new(IncidentKind::OpticsDegraded, root, 0.55, evidence, text))
}

fn hot(ctx: &DetectorContext<'_>, port: usize) -> Option<Finding> {
    let (degrees, most) = (ctx.mean(Signal::ModuleTemperature, port)?, ctx.threshold(&HOT));
    if degrees <= most {
        return None;
    }
    let evidence = evidence(ctx, Signal::ModuleTemperature, port, degrees, most);
    let text = format!("the module at {} has {degrees:.0} degrees Celsius.", name(ctx, port));
    Some(Finding::new(IncidentKind::OpticsDegraded, LocationId::Port(port), 0.55, evidence, text))
}
