//! Man pages of section 1: one for each program and each subcommand.

use crate::Program;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

/// File names and pages.
pub fn pages(program: &Program) -> Vec<(String, Vec<u8>)> {
    let mut command = (program.command)().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    walk(program, &command, &mut pages);
    pages
}

fn walk(program: &Program, command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let man = Man::new(command.clone()).manual("Fabriclens").date("");
    let mut page = Vec::new();
    // Writing to memory does not fail.
    _ = man.render(&mut page);
    page.extend(ends(program, &name).to_roff().into_bytes());
    pages.push((man.get_filename(), page));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        walk(program, sub, pages);
    }
}

/// Sections that the command line does not have: files and related pages.
fn ends(program: &Program, name: &str) -> Roff {
    let mut roff = Roff::new();
    let main = (program.command)().get_name().to_owned();
    if name == main {
        roff.control("SH", ["FILES"]).control("TP", []).text([bold(program.path)]);
        roff.text([roman("Configuration, see "), bold(program.page), roman("(5).")]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut also = vec![bold(program.page), roman("(5), "), bold(program.other), roman("(1)")];
    if name != main {
        also.extend([roman(", "), bold(main), roman("(1)")]);
    }
    roff.text(also);
    roff
}
