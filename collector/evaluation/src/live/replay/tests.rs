//! Verdicts of replays.

use super::collector::Collector;
use super::form::Form;
use super::recorded::{Run, Verdicts};
use super::{ETHERNET, INFINIBAND};
use std::path::{Path, PathBuf};

fn runs(set: &Path) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = std::fs::read_dir(set).unwrap().map(|entry| entry.unwrap().path()).collect();
    dirs.retain(|dir| dir.join("truth.json").is_file());
    dirs.sort();
    dirs
}

/// What a back-test and a replay find.
fn both(dir: &Path, form: Option<&'static Form>) -> [Verdicts; 2] {
    let run = Run::open(dir);
    let (wanted, samples) = run.backtest(form);
    let found = Collector::new(&run).replay(&run, &samples, form);
    [wanted, found]
}

#[test]
#[ignore = "takes minutes"]
fn table() {
    let only = |variable: &str, name: &str| {
        std::env::var(variable).is_ok_and(|only| !only.split(',').any(|o| name.contains(o)))
    };
    let sets = [
        (fabriclens_testing::simulations(), &ETHERNET[..]),
        (fabriclens_testing::simulations().with_file_name("scenarios-ib"), &INFINIBAND[..]),
    ];
    for (set, forms) in sets {
        for dir in runs(&set) {
            let name = dir.file_name().unwrap().to_string_lossy().into_owned();
            if only("RUNS", &name) {
                continue;
            }
            for form in [None].into_iter().chain(forms.iter().map(|form| Some(*form))) {
                let title = form.map_or("agents", |form| form.name);
                if only("FORMS", title) {
                    continue;
                }
                let began = std::time::Instant::now();
                let [wanted, found] = both(&dir, form);
                let mark = if wanted == found { "=" } else { "DIFFERS" };
                println!("{name} | {title} | {mark} | {wanted:?} | {found:?} | {:.1}s", began.elapsed().as_secs_f64());
            }
        }
    }
}
