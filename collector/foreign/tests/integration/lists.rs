//! Every name of the recorded lists maps or is left out with a reason.

use fabriclens_foreign::{Attributes, Meaning, Source, meaning, sources};

/// Has every attribute, so that a name is not unknown for lack of one.
struct Any;

impl Attributes for Any {
    fn get(&self, name: &str) -> Option<&str> {
        Some(match name {
            "object_name" => "Ethernet16|3",
            "direction" => "rx",
            "event" => "up-event",
            "size" => "64",
            "method" => "unicast",
            "component" => "switch",
            "mechanism" => "rs",
            "state" => "corrected",
            "watermark" => "user",
            _ => "1",
        })
    }
}

/// The cells of a CSV file of the recordings, without its header. Quotes enclose commas.
fn cells(path: &str) -> Vec<Vec<String>> {
    let path = fabriclens_testing::recordings().join(path);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let line = |line: &str| {
        let (mut cells, mut quoted) = (vec![String::new()], false);
        for c in line.chars() {
            match c {
                '"' => quoted = !quoted,
                ',' if !quoted => cells.push(String::new()),
                c => cells.last_mut().expect("a first cell").push(c),
            }
        }
        cells
    };
    text.lines().skip(1).map(line).collect()
}

/// Names without a row, and the numbers of mapped and left-out ones.
fn unknown<'a>(source: &Source, names: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, [usize; 2]) {
    let (mut missing, mut known) = (Vec::new(), [0, 0]);
    for name in names {
        match meaning(source, name, &Any) {
            Meaning::Series(_) => known[0] += 1,
            Meaning::LeftOut(why) => {
                assert!(why.len() > 10, "{name}: {why}");
                known[1] += 1;
            }
            Meaning::Unknown => missing.push(name),
        }
    }
    (missing, known)
}

#[test]
#[ignore = "needs: recordings"]
fn cumulus_names_are_known() {
    let mut all = cells("switch-otlp/cumulus-metric-names/cumulus-5.19.csv");
    let documented: Vec<String> = all.drain(..).map(|row| row[1].clone()).collect();
    let (missing, [mapped, left]) = unknown(&sources::cumulus::SOURCE, documented.iter().map(String::as_str));
    assert_eq!(missing, [""; 0]);
    assert!(mapped > 120 && left > 30, "{mapped} {left}");
    let removed = cells("switch-otlp/cumulus-metric-names/removed-in-5.15.csv");
    let (missing, _) = unknown(&sources::cumulus::SOURCE, removed.iter().map(|row| row[0].as_str()));
    assert_eq!(missing, [""; 0]);
}

#[test]
#[ignore = "needs: recordings"]
fn sai_statistics_are_known_by_number_and_by_name() {
    let source = &sources::sonic_hft::SOURCE;
    for (file, least) in [("port", 90), ("queue", 13), ("pg", 8), ("buffer_pool", 7), ("switch", 6)] {
        let rows = cells(&format!("switch-otlp/sai-stat-ids/sai_{file}_stats.csv"));
        let (missing, [mapped, _]) = unknown(source, rows.iter().map(|row| row[3].as_str()));
        assert_eq!(missing, [""; 0]);
        assert!(mapped >= least, "{file}: {mapped}");
        let (missing, _) = unknown(source, rows.iter().map(|row| row[4].as_str()));
        assert_eq!(missing, [""; 0]);
        let marks = |name: &str| name.ends_with("_BASE") || name.ends_with("_START");
        for row in rows.iter().filter(|row| !marks(&row[4])) {
            let of = |name: &str| meaning(source, name, &Any);
            assert_eq!(of(&row[3]), of(&row[4]), "{} is not {}", row[3], row[4]);
        }
    }
}

#[test]
#[ignore = "needs: recordings"]
fn names_of_exporters_are_known() {
    let all = cells("switch-exporters/metric-names/exporters.csv");
    let by = |exporter: &str, source: &Source, least: usize| {
        let rows = all.iter().filter(|row| row[0].contains(exporter));
        let (missing, [mapped, left]) = unknown(source, rows.map(|row| row[1].as_str()));
        assert_eq!(missing, [""; 0], "{exporter}");
        assert!(mapped >= least, "{exporter}: {mapped} mapped, {left} left out");
    };
    by("treydock", &sources::infiniband_exporters::TREYDOCK, 25);
    by("guilbaults", &sources::infiniband_exporters::GUILBAULTS, 28);
    by("rokernel", &sources::sonic_exporters::SOURCE, 18);
    by("snmp_exporter", &sources::snmp::SOURCE, 14);
    by("UFM", &sources::ufm::SOURCE, 13);
}
