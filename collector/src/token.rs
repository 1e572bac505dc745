//! `fabriclens token`: creates tokens. A token is printed once and stored nowhere; a lost token must be replaced.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::cli::{NewToken, TokenArgs, TokenCommand};
use fabriclens_base::duration;
use fabriclens_core::time::now_ms;
use fabriclens_server::auth::Tokens;

/// Runs the command.
///
/// # Errors
/// Describes the problem and the remedy.
pub fn run(args: &TokenArgs) -> Result<(), String> {
    let TokenCommand::New(new) = &args.command;
    let (token, line) = make(new)?;
    let mut out = std::io::stdout().lock();
    let printed = match &new.file {
        None => writeln!(out, "{token}\n{line}"),
        Some(file) => {
            append(file, &new.name, &line)?;
            writeln!(out, "{token}")
        }
    };
    printed.map_err(|e| format!("cannot print the token: {e}"))
}

fn make(new: &NewToken) -> Result<(String, String), String> {
    if new.name.is_empty() || new.name.chars().any(char::is_control) {
        return Err("the name must not be empty or contain control characters; give the name of the owner".to_owned());
    }
    let expires = new.expires.as_ref().map(|text| duration::parse(text).map_err(|e| format!("--expires: {e}")));
    let until = |after: Duration| now_ms().saturating_add(i64::try_from(after.as_millis()).unwrap_or(i64::MAX));
    fabriclens_server::auth::new_token(&new.name, &new.role, new.host.as_deref(), expires.transpose()?.map(until))
}

/// A single write, so that a collector that polls the file sees the whole line or nothing.
fn append(file: &Path, name: &str, line: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}; give a file that this user may write", file.display());
    if file.exists() && Tokens::load(file)?.has(name) {
        return Err(format!(
            "{}: {name:?} has a token there; remove its line first, or choose another name",
            file.display()
        ));
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o640).open(file).map_err(failed)?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_appended_once_per_name() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tokens");
        let new = |name: &str, expires: Option<&str>| {
            let args = NewToken {
                name: name.to_owned(),
                role: "read".parse().unwrap(),
                host: None,
                expires: expires.map(str::to_owned),
                file: Some(file.clone()),
            };
            run(&TokenArgs { command: TokenCommand::New(args) })
        };
        new("grafana", None).unwrap();
        new("on call \"west\"", Some("1d")).unwrap();
        assert!(new("grafana", None).unwrap_err().contains("remove its line first"));
        assert!(new("x", Some("soon")).unwrap_err().starts_with("--expires: "));
        assert!(new("a\nb", None).is_err() && new("", None).is_err());
        let tokens = Tokens::load(&file).unwrap();
        assert!(tokens.has("grafana") && tokens.has("on call \"west\"") && !tokens.has("x"));
    }
}
