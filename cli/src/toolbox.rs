use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use toolwright_github::GitHub;
use toolwright_memory::Memory;
use toolwright_module::{Error, Result, Tool};
use toolwright_text::Text;

use crate::files::Files;
use crate::folders;
use crate::keys::Keys;

/// Arguments that select toolsets.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ToolArgs {
    /// Toolsets, separated by commas: memory, memory:FILE, text, github, files:FOLDER or none.
    /// Default: memory
    ///
    /// - memory: a memory that is lost when the program ends
    /// - memory:FILE: a memory that is kept in this file
    /// - text: search, count, cut and sort text
    /// - github: read from GitHub with the token in GH_TOKEN or GITHUB_TOKEN, or only public data
    /// - files:FOLDER: read, write, list and delete the files of this folder
    ///
    /// A comma in a path is written `\,`.
    #[arg(long, help_heading = "Tools", value_name = "NAME,…", verbatim_doc_comment)]
    tools: Vec<Toolsets>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Toolset {
    Memory(Option<PathBuf>),
    Text,
    Github,
    Files(PathBuf),
    None,
}

/// Toolsets with commas between them.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Toolsets(Vec<Toolset>);

impl FromStr for Toolsets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut toolsets, mut one) = (Vec::new(), String::new());
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            match char {
                // Elsewhere a backslash is part of a path.
                '\\' if chars.next_if_eq(&',').is_some() => one.push(','),
                ',' => toolsets.push(std::mem::take(&mut one).parse()?),
                char => one.push(char),
            }
        }
        // A name that is no toolset after a path may be the rest of the path.
        let last = one.parse::<Toolset>().map_err(|error| match toolsets.last() {
            Some(Toolset::Memory(Some(_)) | Toolset::Files(_)) => {
                format!(r"{error}; write a comma in a path as `\,`")
            }
            _ => error,
        });
        toolsets.push(last?);
        Ok(Self(toolsets))
    }
}

impl FromStr for Toolset {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, place) = match text.split_once(':') {
            Some((name, place)) => (name, Some(place)),
            None => (text, None),
        };
        let path = |place: &str| folders::expanded(PathBuf::from(place));
        match (name, place) {
            ("memory" | "files", Some("")) => {
                Err(format!("`{name}:` names no path after the colon"))
            }
            // The URL is not quoted, because it may contain a password.
            ("memory" | "files", Some(place)) if place.contains("://") => {
                Err(format!("`{name}:` takes a path, and not a URL"))
            }
            ("memory", place) => Ok(Self::Memory(place.map(path))),
            ("files", Some(place)) => Ok(Self::Files(path(place))),
            ("files", None) => Err("name the folder, as in `files:.`".to_owned()),
            ("text", None) => Ok(Self::Text),
            ("github", None) => Ok(Self::Github),
            ("none", None) => Ok(Self::None),
            _ => Err("there is no such toolset; use memory, memory:FILE, text, github, \
                      files:FOLDER or none"
                .to_owned()),
        }
    }
}

impl Toolset {
    /// Returns the toolset as an argument.
    fn written(&self) -> String {
        match self {
            Self::Memory(None) => "memory".to_owned(),
            Self::Memory(Some(file)) => format!("memory:{}", file.display()),
            Self::Text => "text".to_owned(),
            Self::Github => "github".to_owned(),
            Self::Files(folder) => format!("files:{}", folder.display()),
            Self::None => "none".to_owned(),
        }
    }

    /// Returns what distinguishes it from the same toolset at another place: the absolute path, or the
    /// token, which is a secret.
    fn place(&self, key_file: Option<&Path>) -> String {
        let absolute = |path: &Path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            // A file may not exist yet, and its folder may be a link that moves.
            let real = path.canonicalize().ok();
            let in_folder = || Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?));
            real.or_else(in_folder).unwrap_or(path)
        };
        match self {
            Self::Memory(Some(file)) => Self::Memory(Some(absolute(file))).written(),
            Self::Files(folder) => Self::Files(absolute(folder)).written(),
            Self::Github => {
                // A key file that cannot be read is an error when the tools are made.
                let token = github_token(key_file).unwrap_or_default();
                format!("{} {token:?}", self.written())
            }
            toolset => toolset.written(),
        }
    }

    /// Returns whether its calls stay inside the process.
    fn is_contained(&self) -> bool {
        matches!(self, Self::Memory(None) | Self::Text | Self::None)
    }
}

impl ToolArgs {
    /// Uses these toolsets if the command line names none.
    pub(crate) fn or(mut self, toolsets: &[String]) -> Result<Self, String> {
        if self.tools.is_empty() {
            let parsed = toolsets.iter().map(|text| text.parse());
            let parsed = parsed.collect::<Result<Vec<_>, String>>();
            let parsed = parsed.map_err(|error| format!("tools: {error}"))?;
            if !parsed.is_empty() {
                self.tools = vec![Toolsets(parsed)];
            }
        }
        Ok(self)
    }

    /// Returns what to add to an error about a missing tool, if the name begins like those of a
    /// toolset.
    pub(crate) fn advice(tool: &str) -> &'static str {
        match tool.split_once('_').map_or("", |(prefix, _)| prefix) {
            "memory" => "; use --tools memory",
            "text" => "; use --tools text",
            "github" => "; use --tools github",
            "file" => "; use --tools files:FOLDER",
            _ => "",
        }
    }

    pub(crate) fn is_default(&self) -> bool {
        self.tools.is_empty()
    }

    /// Returns the toolsets whose calls stay inside the process, as arguments, and the others.
    pub(crate) fn written(&self) -> (Vec<String>, Vec<String>) {
        let (contained, others): (Vec<_>, _) =
            self.selected().into_iter().partition(Toolset::is_contained);
        let written = |toolsets: Vec<Toolset>| toolsets.iter().map(Toolset::written).collect();
        (written(contained), written(others))
    }

    /// Returns the places of the toolsets whose calls reach outside the process. They contain secrets.
    pub(crate) fn places(&self, key_file: Option<&Path>) -> Vec<String> {
        let outside = self.selected().into_iter().filter(|toolset| !toolset.is_contained());
        outside.map(|toolset| toolset.place(key_file)).collect()
    }

    fn selected(&self) -> Vec<Toolset> {
        match self.tools.is_empty() {
            true => vec![Toolset::Memory(None)],
            false => self.tools.iter().flat_map(|Toolsets(toolsets)| toolsets.clone()).collect(),
        }
    }

    /// Returns the tools of the selected toolsets, each toolset once, with the keys of this file or of
    /// the default one.
    ///
    /// # Errors
    ///
    /// If a file or a folder cannot be opened, a toolset is selected with two places or beside
    /// `none`, or the token for GitHub is not valid.
    pub(crate) async fn tools(&self, key_file: Option<&Path>) -> Result<Vec<Tool>> {
        let selected = self.selected();
        if selected.contains(&Toolset::None)
            && let Some(other) = selected.iter().find(|toolset| **toolset != Toolset::None)
        {
            let other = other.written();
            return Err(Error::other(format!("--tools: none and {other} exclude each other")));
        }
        let mut tools = Vec::new();
        for (place, toolset) in selected.iter().enumerate() {
            if selected[..place].contains(toolset) {
                continue;
            }
            let is_same =
                |other: &Toolset| std::mem::discriminant(other) == std::mem::discriminant(toolset);
            if let Some(other) = selected[..place].iter().find(|other| is_same(other)) {
                let (other, toolset) = (other.written(), toolset.written());
                return Err(Error::other(format!(
                    "--tools: {other} and {toolset} have the same tools; choose one of them"
                )));
            }
            tools.extend(match toolset {
                Toolset::Memory(None) => Memory::default().tools()?,
                Toolset::Memory(Some(file)) => Memory::open(file).await?.tools()?,
                Toolset::Text => Text::default().tools()?,
                Toolset::Github => github(key_file)?.tools()?,
                Toolset::Files(folder) => {
                    let named =
                        |error| Error::other(format!("files:{}: {error}", folder.display()));
                    Files::new(folder).map_err(named)?.tools()?
                }
                Toolset::None => Vec::new(),
            });
        }
        Ok(tools)
    }

    /// Returns the instructions for a model that uses the tools.
    #[must_use]
    pub(crate) fn instructions(&self) -> Option<&'static str> {
        self.selected().iter().find_map(|toolset| match toolset {
            Toolset::Memory(Some(_)) => {
                Some("A memory that is kept between sessions. Search it before you answer.")
            }
            Toolset::Memory(None) => Some("A memory for one session. Search it before you answer."),
            _ => None,
        })
    }
}

fn github(key_file: Option<&Path>) -> Result<GitHub> {
    let token = github_token(key_file)?;
    let github = GitHub::new()?;
    Ok(match token {
        Some(token) => github.with_token(token)?,
        None => github,
    })
}

fn github_token(key_file: Option<&Path>) -> Result<Option<String>> {
    let keys = Keys::load(key_file)?;
    Ok(["GH_TOKEN", "GITHUB_TOKEN"].into_iter().find_map(|name| keys.get(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_of_a_path_is_written_with_a_backslash() {
        let parsed = |text: &str| text.parse::<Toolsets>().map(|Toolsets(toolsets)| toolsets);
        let files = |path: &str| Toolset::Files(path.into());
        assert_eq!(parsed(r"files:/a\,b,text"), Ok(vec![files("/a,b"), Toolset::Text]));
        assert_eq!(parsed(r"files:C:\a\b"), Ok(vec![files(r"C:\a\b")]));
        assert_eq!(parsed("text,github"), Ok(vec![Toolset::Text, Toolset::Github]));
        assert!(parsed("files:/a,b").unwrap_err().ends_with(r"write a comma in a path as `\,`"));
        assert!(parsed("files:/a,b,text").unwrap_err().contains("such toolset"));
        assert!(parsed("").is_err() && parsed("text,").is_err());
    }
}
