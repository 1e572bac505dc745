//! Parses one Markdown page: code blocks, code spans, links and headings.

use anyhow::{Context, Result};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use std::path::{Component, Path, PathBuf};

/// A code block or code span.
#[derive(Debug, Clone)]
pub struct Block {
    /// Text behind the fence: the language and options. Empty for spans and indented blocks.
    pub info: String,
    pub text: String,
    /// First line, from 1.
    pub line: usize,
}

impl Block {
    /// First word behind the fence.
    pub fn language(&self) -> &str {
        self.info.split_whitespace().next().unwrap_or_default()
    }

    /// Words after the language.
    pub fn options(&self) -> &str {
        self.info.strip_prefix(self.language()).unwrap_or_default().trim()
    }
}

/// A page.
pub struct Page {
    /// Path in the repository.
    pub path: PathBuf,
    pub blocks: Vec<Block>,
    /// Code spans within sentences.
    pub code: Vec<Block>,
    links: Vec<String>,
    anchors: Vec<String>,
    root: PathBuf,
}

impl Page {
    /// Reads `path` of the repository at `root`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(root: &Path, path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("read {}", path.display()))?;
        Ok(Self::parse(root, path, &text))
    }

    /// Parses text; `path` is its name.
    pub fn parse(root: &Path, path: &Path, text: &str) -> Self {
        let mut page = Self {
            path: path.to_owned(),
            blocks: Vec::new(),
            code: Vec::new(),
            links: Vec::new(),
            anchors: Vec::new(),
            root: root.to_owned(),
        };
        let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        let (mut block, mut heading) = (None::<Block>, None::<String>);
        for (event, at) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            match event {
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => info.into_string(),
                        CodeBlockKind::Indented => String::new(),
                    };
                    block = Some(Block { info, text: String::new(), line: line(at.start) });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push(dest_url.into_string());
                }
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.anchors.extend(heading.take().map(|h| anchor(&h))),
                Event::Text(t) => put(&t, &mut block, &mut heading),
                Event::Code(t) => {
                    put(&t, &mut block, &mut heading);
                    page.code.push(Block { info: String::new(), text: t.into_string(), line: line(at.start) });
                }
                _ => {}
            }
        }
        page
    }

    /// Links of this page to missing files, or to headings that no page of `pages` has.
    pub fn dead_links(&self, pages: &[Self]) -> Vec<String> {
        let dead = |link: &&String| {
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let to = match file {
                "" => self.path.clone(),
                _ => normal(&self.path.parent().unwrap_or(Path::new("")).join(file)),
            };
            let page = pages.iter().find(|p| p.path == to);
            !self.root.join(&to).exists()
                || !heading.is_empty() && page.is_some_and(|p| !p.anchors.iter().any(|a| a == heading))
        };
        let own = self.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
        own.filter(dead).map(|link| format!("{}: {link}", self.path.display())).collect()
    }
}

/// Appends text to the code block or heading that is open.
fn put(words: &str, block: &mut Option<Block>, heading: &mut Option<String>) {
    for into in [block.as_mut().map(|b| &mut b.text), heading.as_mut()].into_iter().flatten() {
        into.push_str(words);
    }
}

/// `a/b/../c` as `a/c`.
fn normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut out, part| {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            part => out.push(part),
        }
        out
    })
}

/// Anchor of a heading, as GitHub and GitLab make it.
fn anchor(heading: &str) -> String {
    let kept = heading.to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# A page\n\n[here](#a-page) [there](no.md) [where](#nowhere)\n\n```sh not run: why\nls\n```\n\n    ls\n";

    #[test]
    fn blocks_have_language_options_and_line() {
        let page = Page::parse(Path::new("/"), Path::new("docs/a.md"), TEXT);
        let blocks: Vec<_> = page.blocks.iter().map(|b| (b.language(), b.options(), &*b.text, b.line)).collect();
        assert_eq!(blocks, [("sh", "not run: why", "ls\n", 5), ("", "", "ls\n", 9)]);
    }

    #[test]
    fn dead_links_are_found() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(dir.path().join("docs")).expect("made");
        std::fs::write(dir.path().join("docs/a.md"), TEXT).expect("written");
        let page = Page::read(dir.path(), Path::new("docs/a.md")).expect("a page");
        let dead = page.dead_links(std::slice::from_ref(&page));
        assert_eq!(dead, ["docs/a.md: no.md", "docs/a.md: #nowhere"]);
        assert_eq!(normal(Path::new("docs/../deploy/./slurm")), Path::new("deploy/slurm"));
    }
}
