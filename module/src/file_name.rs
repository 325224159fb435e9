//! Names for files that have none.

/// Returns a name for a file without one, for APIs that require it. Its ending is the usual one of
/// the media type, because some servers choose how to read a file by that.
///
/// ```
/// use toolwright_module::message::file_name;
///
/// assert_eq!(file_name("application/pdf"), "file.pdf");
/// assert_eq!(file_name("text/plain; charset=utf-8"), "file.txt");
/// assert_eq!(file_name("application/vnd.unknown"), "file.bin");
/// ```
#[must_use]
pub fn file_name(media_type: &str) -> String {
    let media_type = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    format!("file.{}", ending_of(&media_type))
}

/// Returns the ending of a file of a media type in lower case. The name of a registered format
/// (`application/json`) or of its syntax (`application/vnd.api+json`) is an ending; others are in the
/// list, or have the ending for any bytes.
fn ending_of(media_type: &str) -> &str {
    let known = ENDINGS.iter().find(|(_, types)| types.contains(&media_type));
    if let Some((ending, _)) = known {
        return ending;
    }
    let (kind, name) = media_type.split_once('/').unwrap_or(("", media_type));
    let name = name.rsplit_once('+').map_or(name, |(_, syntax)| syntax);
    let name = name.strip_prefix("x-").unwrap_or(name);
    let is_ending =
        (1..=8).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric());
    match kind {
        _ if is_ending => name,
        "text" => "txt",
        _ => "bin",
    }
}

/// The endings of files whose media type does not have them.
#[rustfmt::skip]
const ENDINGS: &[(&str, &[&str])] = &[
    ("bin", &["application/octet-stream", "binary/octet-stream"]),
    ("bmp", &["image/x-ms-bmp"]),
    ("c", &["text/x-c", "text/x-csrc"]),
    ("cpp", &["text/x-c++", "text/x-c++src"]),
    ("cs", &["text/x-csharp"]),
    ("csv", &["application/csv", "text/comma-separated-values"]),
    ("doc", &["application/msword"]),
    ("docx", &["application/vnd.openxmlformats-officedocument.wordprocessingml.document"]),
    ("eml", &["message/rfc822"]),
    ("epub", &["application/epub+zip"]),
    ("gz", &["application/gzip", "application/x-gzip"]),
    ("html", &["application/xhtml+xml"]),
    ("ico", &["image/vnd.microsoft.icon", "image/x-icon"]),
    ("ics", &["text/calendar"]),
    ("java", &["text/x-java", "text/x-java-source"]),
    ("jpg", &["image/jpeg", "image/pjpeg"]),
    ("js", &["application/javascript", "application/x-javascript", "text/javascript"]),
    ("jsonl", &["application/jsonlines", "application/x-ndjson"]),
    ("kt", &["text/x-kotlin"]),
    ("m4a", &["audio/mp4", "audio/x-m4a"]),
    ("md", &["text/markdown", "text/x-markdown"]),
    ("mov", &["video/quicktime"]),
    ("mp3", &["audio/mpeg", "audio/mpeg3", "audio/x-mpeg-3"]),
    ("mpg", &["video/mpeg"]),
    ("odp", &["application/vnd.oasis.opendocument.presentation"]),
    ("ods", &["application/vnd.oasis.opendocument.spreadsheet"]),
    ("odt", &["application/vnd.oasis.opendocument.text"]),
    ("php", &["application/x-httpd-php", "text/x-php"]),
    ("ppt", &["application/vnd.ms-powerpoint"]),
    ("pptx", &["application/vnd.openxmlformats-officedocument.presentationml.presentation"]),
    ("py", &["text/x-python", "application/x-python", "application/x-python-code"]),
    ("rb", &["text/x-ruby", "application/x-ruby"]),
    ("rs", &["text/rust", "text/x-rust"]),
    ("rtf", &["text/richtext"]),
    ("sh", &["application/x-sh", "application/x-shellscript", "text/x-sh", "text/x-shellscript"]),
    ("svg", &["image/svg+xml"]),
    ("tex", &["application/x-tex", "application/x-latex", "text/x-tex"]),
    ("tif", &["image/tiff"]),
    ("ts", &["application/typescript", "application/x-typescript", "text/x-typescript"]),
    ("tsv", &["text/tab-separated-values"]),
    ("txt", &["text/plain"]),
    ("wav", &["audio/vnd.wave", "audio/wave", "audio/x-pn-wav"]),
    ("xls", &["application/vnd.ms-excel"]),
    ("xlsx", &["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"]),
    ("yaml", &["application/vnd.yaml"]),
    ("zip", &["application/x-zip-compressed"]),
];

#[cfg(test)]
mod tests {
    use super::file_name;

    #[test]
    fn a_file_has_the_ending_of_its_media_type() {
        const OFFICE: &str = "application/vnd.openxmlformats-officedocument";
        let types = [
            (&*format!("{OFFICE}.wordprocessingml.document"), "docx"),
            (&format!("{OFFICE}.spreadsheetml.sheet"), "xlsx"),
            (&format!("{OFFICE}.presentationml.presentation"), "pptx"),
            ("application/msword", "doc"),
            ("application/vnd.ms-excel", "xls"),
            ("application/vnd.oasis.opendocument.text", "odt"),
            ("application/vnd.unknown.format", "bin"),
            ("application/octet-stream", "bin"),
            ("application/vnd.api+json", "json"),
            ("application/x-tar", "tar"),
            ("image/svg+xml", "svg"),
            ("image/JPEG", "jpg"),
            ("text/plain; charset=utf-8", "txt"),
            ("text/markdown", "md"),
            ("text/x-python", "py"),
            ("text/x-something-long", "txt"),
            ("text/csv", "csv"),
            ("audio/mpeg", "mp3"),
            ("", "bin"),
            ("../../etc/passwd", "bin"),
        ];
        for (media_type, ending) in types {
            assert_eq!(file_name(media_type), format!("file.{ending}"), "{media_type}");
        }
    }
}
