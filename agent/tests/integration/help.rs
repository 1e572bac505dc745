//! The output of `--help` is pinned in a golden file, because flags are an interface.

use clap::CommandFactory as _;
use fabriclens_agent::cli::Cli;

#[test]
fn help_is_pinned() {
    let mut command = Cli::command().term_width(100);
    command.build();
    let mut text = String::new();
    let names: Vec<String> = command.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    for name in std::iter::once(None).chain(names.iter().filter(|n| *n != "help").map(Some)) {
        let one = match name {
            None => &mut command,
            Some(name) => command.find_subcommand_mut(name).unwrap(),
        };
        let help = one.clone().term_width(100).render_long_help().to_string();
        text.push_str(&format!(
            "$ fabriclens-agent {}--help\n{help}\n",
            name.map_or(String::new(), |n| n.clone() + " ")
        ));
    }
    let text: String = text.lines().map(|l| l.trim_end().to_owned() + "\n").collect();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/agent-help.txt");
    fabriclens_testing::golden(path, &text);
}
