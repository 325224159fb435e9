//! `#[toolset]` on impl blocks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolwright::prelude::*;
use toolwright::{Effect, Tool};

/// Notes, which clones share.
#[derive(Clone, Default)]
pub(crate) struct NoteBook {
    notes: Arc<Mutex<BTreeMap<String, String>>>,
}

#[toolset(derive(Debug, PartialEq))]
impl NoteBook {
    /// Write a note. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// For people.
    #[tool(effect = Idempotent)]
    pub(crate) async fn write(
        &self,
        /// Title of the note.
        title: &str,
        /// Text of the note.
        text: &str,
        /// Labels.
        tags: Option<Vec<String>>,
    ) -> Result<bool> {
        let text = format!("{text}{}", tags.unwrap_or_default().join(","));
        Ok(self.notes.lock().unwrap().insert(title.to_owned(), text).is_some())
    }

    /// Read a note.
    #[toolwright::tool(effect = Read, name = "look_up", render = shown)]
    fn read(
        &self,
        /// Title of the note.
        title: &str,
        cx: &Context,
        #[context] log: Option<&Log>,
    ) -> Option<String> {
        assert!(!cx.is_cancelled());
        if let Some(log) = log {
            log.0.lock().unwrap().push(title.to_owned());
        }
        self.notes.lock().unwrap().get(title).cloned()
    }

    /// Count the letters of a word.
    #[tool(effect = Read)]
    pub(crate) fn letters(
        /// A word.
        word: &str,
    ) -> usize {
        word.len()
    }

    /// Left out.
    #[tool]
    #[cfg(any())]
    pub(crate) fn left_out(&self) -> Missing {}

    /// Not a tool.
    fn len(&self) -> usize {
        self.notes.lock().unwrap().len()
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

#[allow(clippy::ref_option)]
fn shown(note: &Option<String>) -> String {
    note.as_ref().map_or("no such note".to_owned(), |note| format!("> {note}"))
}

#[tokio::test]
async fn methods_are_tools_and_still_methods() -> Result<()> {
    let book = NoteBook::default();
    let tools = book.tools()?;
    let names: Vec<_> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, ["note_book_write", "look_up", "note_book_letters"]);
    let effects: Vec<_> = tools.iter().map(Tool::effect).collect();
    assert_eq!(effects, [Effect::Idempotent, Effect::Read, Effect::Read]);
    assert_eq!(tools[0].contract().description(), "Write a note. Returns whether there was one.");

    assert!(!book.write("a", "one", None).await?);
    let cx = Context::default();
    let arguments = json!({"title": "a", "text": "two", "tags": ["!"]}).to_string();
    assert_eq!(tools[0].call(&arguments, &cx).await?.text, "true");
    assert_eq!(book.read("a", &cx, None).as_deref(), Some("two!"));
    assert_eq!(tools[1].call(r#"{"title": "b"}"#, &cx).await?.text, "no such note");
    assert_eq!(tools[2].call(r#"{"word": "abc"}"#, &cx).await?.text, "3");
    assert_eq!((book.len(), NoteBook::default().len()), (1, 0));

    // One tool alone, and its module.
    let log = Log::default();
    let one = NoteBookRead::tool(&book)?;
    let output = one.call(r#"{"title": "a"}"#, &cx.clone().with(log.clone())).await?;
    assert_eq!((&*output.text, log.0.lock().unwrap().len()), ("> two!", 1));
    let module = NoteBookLetters::module(&book);
    drop(book);
    assert_eq!(module.call(NoteBookLetters { word: "four".to_owned() }, &cx).await?, 4);
    assert_eq!(NoteBookLetters { word: String::new() }, NoteBookLetters { word: String::new() });
    Ok(())
}

/// Numbers.
#[derive(Clone)]
struct Table<T>(T);

#[toolset(prefix = "", effect = Read)]
impl Table<u8> {
    /// Get the number.
    #[tool]
    fn get(&self) -> u8 {
        self.0
    }

    /// Set the number, or say so.
    #[tool(effect = Write)]
    fn set(&self) -> u8 {
        self.0
    }
}

#[test]
fn a_prefix_and_an_effect_hold_for_the_block() -> Result<()> {
    let tools = Table(1).tools()?;
    assert!(tools.iter().map(Tool::name).eq(["get", "set"]));
    assert!(tools.iter().map(Tool::effect).eq([Effect::Read, Effect::Write]));
    Ok(())
}

/// Mails that strangers wrote.
#[derive(Clone)]
struct Mails;

#[toolset(untrusted, effect = Read)]
impl Mails {
    /// Read a mail.
    #[tool]
    fn read() -> String {
        "Obey.".to_owned()
    }
}

#[derive(Clone)]
struct Others;

#[toolset(effect = Read)]
impl Others {
    /// Read a page.
    #[tool(untrusted)]
    fn page() -> String {
        "Obey.".to_owned()
    }

    /// Read the time.
    #[tool]
    fn time() -> String {
        "Noon.".to_owned()
    }
}

#[test]
fn the_results_of_a_tool_or_a_toolset_are_untrusted() {
    assert!(Mails.tools().unwrap()[0].is_untrusted());
    let others = Others.tools().unwrap();
    assert_eq!(others.iter().map(Tool::is_untrusted).collect::<Vec<_>>(), [true, false]);
}
