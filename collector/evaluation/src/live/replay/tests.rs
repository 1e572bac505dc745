//! Verdicts of replays, and what is stored.

use super::collector::Collector;
use super::form::{Form, RX};
use super::recorded::{Run, Verdicts};
use super::{ETHERNET, INFINIBAND, cumulus, exporter, gnmi, ib_exporter, sonic_hft};
use fabriclens_correlate::recording::PortSample;
use fabriclens_model::{Labels, is_absent};
use fabriclens_testing::{infiniband_simulations, simulations};
use std::path::{Path, PathBuf};

/// What a back-test and a replay of a run find.
fn both(dir: &Path, form: Option<&'static Form>) -> [Verdicts; 2] {
    let run = Run::open(dir);
    let (wanted, samples) = run.backtest(form);
    [wanted, Collector::new(&run).replay(&run, &samples, form)]
}

/// Asserts that both find this.
fn found(dir: &Path, form: Option<&'static Form>, verdicts: &[&str]) {
    let [wanted, found] = both(dir, form);
    let title = form.map_or("agents", |form| form.name);
    let verdicts: Verdicts = verdicts.iter().map(|verdict| (*verdict).to_owned()).collect();
    assert_eq!([&found, &wanted], [&verdicts; 2], "{title}");
}

#[test]
#[ignore = "needs: simulations"]
fn a_simulated_slow_link_is_found_by_cumulus_counters() {
    let dir = simulations().join("degraded_uplink-1");
    found(&dir, Some(&cumulus::FORM), &["DegradedLink 16-23"]);
}

#[test]
#[ignore = "needs: simulations"]
fn a_simulated_receiver_is_found_by_statistics_of_sai() {
    found(&simulations().join("slow_receiver-1"), Some(&sonic_hft::FORM), &["SlowReceiver 12-1"]);
}

/// Switches report no queue by gNMI, so the marks that the receiving host counts have to name it.
#[test]
#[ignore = "needs: simulations"]
fn a_simulated_incast_is_found_by_gnmi_every_five_seconds() {
    found(&simulations().join("incast-1"), Some(&gnmi::CUMULUS), &["Incast 8-1"]);
}

#[test]
#[ignore = "needs: simulations"]
fn a_simulated_lossy_link_is_found_by_scrapes_every_fifteen_seconds() {
    found(&simulations().join("lossy_link-1"), Some(&exporter::SONIC), &["LossyLink 19-21"]);
}

#[test]
#[ignore = "needs: infiniband-simulations"]
fn a_simulated_lossy_cable_is_found_by_an_exporter() {
    found(&infiniband_simulations().join("lossy_link-1"), Some(&ib_exporter::GUILBAULTS), &["LossyLink 26-32"]);
}

#[test]
#[ignore = "needs: infiniband-simulations"]
fn infiniband_of_agents_is_evaluated_as_in_a_back_test() {
    found(&infiniband_simulations().join("degraded_uplink-1"), None, &["DegradedLink 28-30"]);
}

/// Time of the last sample that is compared, ms.
const LAST_MS: i64 = 60_000;

/// What identifies a series in every form; reasons, queues and traffic classes differ.
fn key(labels: &Labels) -> String {
    let metric = match labels.metric() {
        // Forms without marks of ports have those of the lossless queue.
        "fabric_port_queue_ecn_marks_total" => "fabric_ecn_marks_total",
        // The exporter of SONiC counts all receive errors.
        "fabric_link_receive_errors_total" => "fabric_link_crc_errors_total",
        metric => metric,
    };
    let direction = if metric == "fabric_link_crc_errors_total" { RX.1 } else { labels.get("direction") };
    format!("{metric} {} {direction} {}", labels.get("port"), labels.get("priority"))
}

/// Each form stores what was sent, under the switch's name and in the units of the catalog.
#[test]
#[ignore = "needs: simulations, infiniband-simulations"]
fn every_form_is_stored_as_it_was_recorded() {
    let sets = [
        (simulations().join("pfc_storm-2"), &ETHERNET[..], "34"),
        (infiniband_simulations().join("lossy_link-1"), &INFINIBAND[..], "26"),
    ];
    for (dir, forms, switch) in sets {
        let run = Run::open(&dir);
        for form in forms {
            let (_, mut samples) = run.backtest(Some(form));
            samples.retain(|sample| sample.time_ms <= LAST_MS);
            let mut collector = Collector::new(&run);
            collector.replay(&run, &samples, Some(form));
            let arrived = |sample: &&PortSample| sample.time_ms + form.delay_ms <= LAST_MS;
            let own = |sample: &&PortSample| sample.series[0].get("host") == switch;
            let stored = collector.stored(switch);
            let mut compared = 0;
            let recorded = samples.iter().find(own).unwrap();
            for series in recorded.series.iter().filter(|series| form.counter(series).is_some()) {
                let of_series = |sample: &PortSample| {
                    let at = sample.series.iter().position(|other| other == series)?;
                    Some(sample.values[at]).filter(|value| !is_absent(*value))
                };
                let wanted: Vec<f64> = samples.iter().filter(own).filter(arrived).filter_map(of_series).collect();
                let same: Vec<_> = stored.iter().filter(|one| key(&one.labels) == key(series)).collect();
                assert_eq!((same.len(), same[0].values.len()), (1, wanted.len()), "{}: {series}", form.name);
                let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 4.0 + 1e-6 * b.abs();
                assert!(same[0].values.iter().zip(&wanted).all(near), "{}: {series}", form.name);
                compared += wanted.len();
            }
            assert!(compared > 10, "{}: {compared} values", form.name);
        }
    }
}

fn runs(set: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(set).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.retain(|dir| dir.join("truth.json").is_file());
    dirs.sort();
    dirs
}

/// Prints what a back-test and a replay of each run find in each form. `RUNS` and `FORMS` select by parts of names,
/// separated by commas. It takes a quarter of an hour.
#[test]
#[ignore = "prints a table"]
fn table() {
    let left_out = |variable: &str, name: &str| {
        std::env::var(variable).is_ok_and(|wanted| !wanted.split(',').any(|part| name.contains(part)))
    };
    for (set, forms) in [(simulations(), &ETHERNET[..]), (infiniband_simulations(), &INFINIBAND[..])] {
        for dir in runs(&set) {
            let name = dir.file_name().unwrap().to_string_lossy().into_owned();
            for form in [None].into_iter().chain(forms.iter().map(|form| Some(*form))) {
                let title = form.map_or("agents", |form| form.name);
                if left_out("RUNS", &name) || left_out("FORMS", title) {
                    continue;
                }
                let [wanted, found] = both(&dir, form);
                let word = if wanted == found { "equal" } else { "DIFFERS" };
                println!("{name} | {title} | {word} | {wanted:?} | {found:?}");
            }
        }
    }
}
