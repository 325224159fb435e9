//! [`JsonBody`]: a request's body, written field by field.

use std::mem;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use toolwright_http::RequestBody;

/// Number of bytes from which a shared part is not copied: below, a copy takes less time than
/// sending one more piece.
const LARGE: usize = 8 << 10;

/// Space for a small object, as a serializer of serde_json begins with.
const SMALL: usize = 128;

/// Space for the fields after a large part.
const AFTER: usize = 256;

/// The body of a request under construction: a JSON object, written field by field.
///
/// Parts that were written before are copied as bytes, so that a long conversation is not
/// serialized again for each request. The [`extra`](toolwright_module::model::Settings::extra) fields of the
/// settings take the place of fields of the same name.
///
/// ```
/// use serde_json::json;
/// use toolwright_provider::JsonBody;
///
/// let extra = json!({"seed": 8});
/// let mut body = JsonBody::new(extra.as_object());
/// body.field("model", "m")?;
/// body.field("seed", &7)?;
/// body.list("messages", [br#"{"role":"user"}"#, br#"{"role":"tool"}"#]);
/// let body = String::from_utf8(body.end()?)?;
/// assert_eq!(body, r#"{"model":"m","messages":[{"role":"user"},{"role":"tool"}],"seed":8}"#);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JsonBody<'a> {
    /// The pieces before `json`.
    pieces: Vec<Bytes>,
    json: Vec<u8>,
    extra: Option<&'a Map<String, Value>>,
}

impl<'a> JsonBody<'a> {
    /// Begins a body with these extra fields.
    #[must_use]
    pub fn new(extra: Option<&'a Map<String, Value>>) -> Self {
        let mut json = Vec::with_capacity(SMALL);
        json.push(b'{');
        Self { pieces: Vec::new(), json, extra }
    }

    /// Reserves space for parts of this size and the small fields beside them, so that a large body
    /// is not moved while it grows.
    pub fn reserve(&mut self, bytes: usize) {
        const SMALL_FIELDS: usize = 1024;
        self.json.reserve(bytes.saturating_add(SMALL_FIELDS));
    }

    /// Writes a field.
    ///
    /// # Errors
    ///
    /// The error of the serializer.
    pub fn field(
        &mut self,
        name: &str,
        value: &(impl Serialize + ?Sized),
    ) -> serde_json::Result<()> {
        match self.begin(name) {
            true => serde_json::to_writer(&mut self.json, value),
            false => Ok(()),
        }
    }

    /// Writes a field, if there is a value.
    ///
    /// # Errors
    ///
    /// The error of the serializer.
    pub fn optional(
        &mut self,
        name: &str,
        value: &Option<impl Serialize>,
    ) -> serde_json::Result<()> {
        value.as_ref().map_or(Ok(()), |value| self.field(name, value))
    }

    /// Writes a field whose value is JSON already.
    pub fn raw(&mut self, name: &str, json: &[u8]) {
        self.raw_with(name, |body| body.extend_from_slice(json));
    }

    /// Writes a field whose value is JSON that several requests share, such as their tools, in one or
    /// more pieces. A large piece is not copied if the body ends with
    /// [`into_request`](Self::into_request).
    ///
    /// ```
    /// use toolwright_provider::JsonBody;
    ///
    /// let tools = bytes::Bytes::from(format!("[{}]", " ".repeat(10_000)));
    /// let mut body = JsonBody::new(None);
    /// body.field("model", "m")?;
    /// body.shared("tools", [tools]);
    /// body.field("stream", &true)?;
    /// let sent = body.end()?;
    /// assert!(sent.starts_with(br#"{"model":"m","tools":["#));
    /// assert!(sent.ends_with(br#"],"stream":true}"#));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn shared(&mut self, name: &str, json: impl IntoIterator<Item = Bytes>) {
        if self.begin(name) {
            json.into_iter().for_each(|piece| self.append(piece));
        }
    }

    fn append(&mut self, json: Bytes) {
        if json.len() < LARGE {
            return self.json.extend_from_slice(&json);
        }
        let before = match self.json.len() < self.json.capacity() / 2 {
            // The reserved space is for the parts that follow.
            true => {
                let before = Bytes::copy_from_slice(&self.json);
                self.json.clear();
                before
            }
            false => mem::replace(&mut self.json, Vec::with_capacity(AFTER)).into(),
        };
        self.pieces.extend([before, json]);
    }

    /// Writes a field whose value `write` adds as JSON, so that a large value of several pieces is
    /// copied only once.
    ///
    /// ```
    /// use toolwright_provider::JsonBody;
    ///
    /// let mut body = JsonBody::new(None);
    /// body.raw_with("tools", |json| json.extend_from_slice(br#"[{"name":"look"}]"#));
    /// assert_eq!(body.end()?, br#"{"tools":[{"name":"look"}]}"#);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn raw_with(&mut self, name: &str, write: impl FnOnce(&mut Vec<u8>)) {
        if self.begin(name) {
            write(&mut self.json);
        }
    }

    /// Writes a list whose items are JSON already. An item may also be several items with commas
    /// between them, or nothing.
    pub fn list(&mut self, name: &str, items: impl IntoIterator<Item = impl AsRef<[u8]>>) {
        if !self.begin(name) {
            return;
        }
        self.json.push(b'[');
        let mut is_first = true;
        for item in items {
            if item.as_ref().is_empty() {
                continue;
            }
            if !is_first {
                self.json.push(b',');
            }
            is_first = false;
            self.json.extend_from_slice(item.as_ref());
        }
        self.json.push(b']');
    }

    /// Writes the extra fields and returns the body.
    ///
    /// # Errors
    ///
    /// The error of the serializer.
    pub fn end(mut self) -> serde_json::Result<Vec<u8>> {
        self.close()?;
        if self.pieces.is_empty() {
            return Ok(self.json);
        }
        self.pieces.push(self.json.into());
        Ok(self.pieces.concat())
    }

    /// Writes the extra fields and returns the body of a request, which shares its large parts with
    /// others.
    ///
    /// # Errors
    ///
    /// The error of the serializer.
    pub fn into_request(mut self) -> serde_json::Result<RequestBody> {
        self.close()?;
        if self.pieces.is_empty() {
            return Ok(self.json.into());
        }
        self.pieces.push(self.json.into());
        Ok(self.pieces.into_iter().collect())
    }

    fn close(&mut self) -> serde_json::Result<()> {
        for (name, value) in self.extra.take().into_iter().flatten() {
            self.field(name, value)?;
        }
        self.json.push(b'}');
        Ok(())
    }

    /// Writes the name of a field, unless an extra field takes its place.
    fn begin(&mut self, name: &str) -> bool {
        if self.extra.is_some_and(|extra| extra.contains_key(name)) {
            return false;
        }
        const AROUND: usize = r#","":"#.len();
        self.json.reserve(name.len() + AROUND);
        // The first piece begins with the brace.
        if !self.pieces.is_empty() || self.json.len() > 1 {
            self.json.push(b',');
        }
        // The names of fields have no character to escape, those of extra fields may.
        match name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            true => {
                self.json.push(b'"');
                self.json.extend_from_slice(name.as_bytes());
                self.json.push(b'"');
            }
            false => self.json.extend_from_slice(Value::from(name).to_string().as_bytes()),
        }
        self.json.push(b':');
        true
    }
}
