//! `mcp package`: a server as a file that people install, and its entry in the registry of servers.
//!
//! The bundle has the form of <https://github.com/modelcontextprotocol/mcpb>, and the entry that of
//! <https://modelcontextprotocol.io/registry>.

use std::fs::{self, File};
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use toolwright_mcp::McpClient;
use toolwright_module::{Context, Error, Result};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::keys::Keys;
use crate::servers::{self, found_program, is_url, note_left_out};
use crate::show::say;

/// Version of the form of bundles.
const MANIFEST: &str = "0.3";
/// Form of entries in the registry.
const ENTRY: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";
/// Limits of the registry.
const NAME_LENGTHS: std::ops::RangeInclusive<usize> = 3..=200;
const LONGEST_DESCRIPTION: usize = 100;

/// Arguments of `mcp package`.
#[derive(Args)]
pub(super) struct Package {
    /// The command that starts the server over standard input and output: a compiled program, and its
    /// arguments. In an argument, ${HOME} and the like are for the application that installs the bundle
    #[arg(value_name = "COMMAND")]
    command: String,

    /// Name in the registry, such as io.github.USER/orders. The bundle has the part after the slash
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = name)]
    name: String,

    /// What the server is for, in at most 100 characters
    #[arg(long, value_name = "TEXT", value_parser = description)]
    description: String,

    /// Author of the server
    #[arg(long, value_name = "NAME")]
    author: String,

    /// Version of the bundle. Default: the version that the server gives itself
    #[arg(long, value_name = "VERSION", value_parser = version)]
    version: Option<String>,

    /// Variable that the server needs. The person who installs the bundle is asked for it. Its value here
    /// only starts the server once, and is not in the bundle; can be repeated
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,

    /// Picture of the server, a PNG file
    #[arg(long, value_name = "FILE")]
    icon: Option<PathBuf>,

    /// Address from which the bundle will be downloaded, for the entry in the registry: a release on
    /// GitHub or GitLab, with `mcp` in it. Without it, no entry is written
    #[arg(long, value_name = "URL", value_parser = address)]
    url: Option<String>,

    /// Folder for the files. Default: the current one
    #[arg(long, value_name = "FOLDER", default_value = ".", hide_default_value = true)]
    out: PathBuf,
}

impl Package {
    /// Starts the server, writes the bundle with its list of tools, and the entry in the registry.
    ///
    /// # Errors
    ///
    /// If the command is not that of a compiled program, the server cannot be used, or a file cannot be
    /// read or written.
    pub(super) async fn run(self, cx: &Context) -> Result<()> {
        if is_url(&self.command) {
            let text =
                "a server with a URL has no program to package; name the command of its program";
            return Err(Error::other(text));
        }
        let words = shlex::split(&self.command).unwrap_or_default();
        let Some((program, arguments)) = words.split_first() else {
            return Err(Error::other("name the command that starts the server"));
        };
        let program = Program::read(&found_program(program))?;
        let icon = self.icon.as_deref().map(read_icon).transpose()?;

        let remote = self.connect(cx).await?;
        note_left_out(&remote);
        let bundle = self.bundle(&remote, &program, arguments, icon.as_deref());
        remote.close().await;
        let (file, bundle) = bundle?;

        write(&self.out.join(&file), &bundle.zip)?;
        say(&format!("{file}: {} tools, {} bytes", bundle.tools, bundle.zip.len()));
        if let Some(url) = &self.url {
            let mut entry = serde_json::to_string_pretty(&self.entry(&bundle, url))?;
            entry.push('\n');
            write(&self.out.join("server.json"), entry.as_bytes())?;
            say(&format!("server.json: the entry for the registry, with {file} at {url}"));
        }
        Ok(())
    }

    async fn connect(&self, cx: &Context) -> Result<McpClient> {
        let keys = if self.env.is_empty() { Keys::default() } else { Keys::load(None)? };
        let server = servers::Server {
            target: &self.command,
            env: self.env.iter().map(String::as_str).collect(),
            ..servers::Server::default()
        };
        cx.until_cancelled(server.connect(&keys, "--")).await
    }

    /// Returns the name of the bundle's file, and the bundle.
    fn bundle(
        &self,
        remote: &McpClient,
        program: &Program,
        arguments: &[String],
        icon: Option<&[u8]>,
    ) -> Result<(String, Bundle)> {
        let version = match &self.version {
            Some(version) => version.clone(),
            None => version(&remote.version()).map_err(|reason| {
                Error::other(format!(
                    "the server's own version is not usable: {reason}; set --version"
                ))
            })?,
        };
        let tools: Vec<Value> = remote
            .tools()
            .iter()
            .map(|tool| json!({"name": tool.name(), "description": tool.contract().description()}))
            .collect();
        let name = self.name.rsplit('/').next().unwrap_or(&self.name);
        let entry_point = format!("server/{}", program.name);
        let env: Map<String, Value> = self
            .env
            .iter()
            .map(|variable| (variable.clone(), json!(format!("${{user_config.{variable}}}"))))
            .collect();
        let asked: Map<String, Value> = self
            .env
            .iter()
            .map(|variable| {
                let description = format!("Value of the variable {variable}");
                let field = json!({
                    "type": "string",
                    "title": variable,
                    "description": description,
                    "required": true,
                    "sensitive": true,
                });
                (variable.clone(), field)
            })
            .collect();
        let mut manifest = json!({
            "manifest_version": MANIFEST,
            "name": name,
            "version": version,
            "description": self.description,
            "author": {"name": self.author},
            "server": {
                "type": "binary",
                "entry_point": entry_point,
                "mcp_config": {
                    "command": format!("${{__dirname}}/{entry_point}"),
                    "args": arguments,
                    "env": env,
                },
            },
            "tools": tools,
            "compatibility": {"platforms": [program.platform]},
        });
        if !asked.is_empty() {
            manifest["user_config"] = asked.into();
        }
        let mut files = Vec::new();
        if let Some(icon) = icon {
            manifest["icon"] = "icon.png".into();
            files.push(("icon.png", icon, 0o644));
        }
        let manifest = serde_json::to_string_pretty(&manifest)?;
        files.insert(0, ("manifest.json", manifest.as_bytes(), 0o644));
        files.push((&*entry_point, &*program.bytes, 0o755));
        let zip = zipped(&files)
            .map_err(|error| Error::other(format!("cannot write the bundle: {error}")))?;
        let file = format!("{name}-{version}-{}.mcpb", program.platform);
        Ok((file, Bundle { zip, version, tools: tools.len() }))
    }

    /// Returns the entry for the registry.
    fn entry(&self, bundle: &Bundle, url: &str) -> Value {
        let mut package = json!({
            "registryType": "mcpb",
            "identifier": url,
            "version": bundle.version,
            "fileSha256": hash(&bundle.zip),
            "transport": {"type": "stdio"},
        });
        if !self.env.is_empty() {
            let needed = |name| json!({"name": name, "isRequired": true, "isSecret": true});
            package["environmentVariables"] = self.env.iter().map(needed).collect();
        }
        json!({
            "$schema": ENTRY,
            "name": self.name,
            "description": self.description,
            "version": bundle.version,
            "packages": [package],
        })
    }
}

struct Bundle {
    zip: Vec<u8>,
    version: String,
    tools: usize,
}

/// A compiled program.
struct Program {
    name: String,
    /// The system that it is for, by the name that bundles have for it.
    platform: &'static str,
    bytes: Vec<u8>,
}

impl Program {
    fn read(path: &Path) -> Result<Self> {
        let bytes = read(path)?;
        let platform = platform(&bytes).ok_or_else(|| {
            let shown = path.display();
            Error::other(format!(
                "{shown} is not a compiled program, so a bundle would lack what it needs; build one \
                 with `cargo build --release` and name it"
            ))
        })?;
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| Error::other("the name of the program is not text"))?;
        Ok(Self { name: name.to_owned(), platform, bytes })
    }
}

/// Returns the system that a program is for, by its first bytes. `None` if it is not a program.
fn platform(bytes: &[u8]) -> Option<&'static str> {
    const MACH_O: [[u8; 4]; 3] =
        [[0xcf, 0xfa, 0xed, 0xfe], [0xce, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => Some("linux"),
        [b'M', b'Z', ..] => Some("win32"),
        [a, b, c, d, ..] if MACH_O.contains(&[*a, *b, *c, *d]) => Some("darwin"),
        _ => None,
    }
}

/// Returns an archive with these files. The same files give the same bytes, so the hash of a build can be
/// compared.
fn zipped(files: &[(&str, &[u8], u32)]) -> zip::result::ZipResult<Vec<u8>> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes, mode) in files {
        // Without a time of its own, each file has that of the format's beginning.
        zip.start_file(*name, SimpleFileOptions::default().unix_permissions(*mode))?;
        zip.write_all(bytes)?;
    }
    Ok(zip.finish()?.into_inner())
}

fn read_icon(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    match bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        true => Ok(bytes),
        false => Err(Error::other(format!("--icon: {} is not a PNG file", path.display()))),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error| Error::other(format!("cannot read {}: {error}", path.display()));
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Error::other(format!("{} is not a file", path.display())));
    }
    file.read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes)
        .map_err(|error| Error::other(format!("cannot write {}: {error}", path.display())))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn name(text: &str) -> Result<String, &'static str> {
    let part = |text: &str, others: &str| {
        let fits = |char: char| char.is_ascii_alphanumeric() || others.contains(char);
        !text.is_empty() && text.chars().all(fits)
    };
    let is_valid = NAME_LENGTHS.contains(&text.len())
        && text
            .split_once('/')
            .is_some_and(|(namespace, name)| part(namespace, ".-") && part(name, "._-"));
    match is_valid {
        true => Ok(text.to_owned()),
        false => {
            Err("write a namespace that is yours, a slash and a name of letters, digits, `.`, `_` \
                      and `-`, such as io.github.USER/orders")
        }
    }
}

fn description(text: &str) -> Result<String, &'static str> {
    match (1..=LONGEST_DESCRIPTION).contains(&text.chars().count()) {
        true => Ok(text.to_owned()),
        false => Err("the registry takes 1 to 100 characters"),
    }
}

fn version(text: &str) -> Result<String, String> {
    match semver::Version::parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("`{text}` is not a version such as 1.0.0: {error}")),
    }
}

fn address(text: &str) -> Result<String, &'static str> {
    match reqwest::Url::parse(text).is_ok_and(|url| url.scheme() == "https") && text.contains("mcp")
    {
        true => Ok(text.to_owned()),
        false => Err("write a URL with https:// and, as the registry requires, with `mcp` in it"),
    }
}
