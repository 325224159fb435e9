use std::borrow::Cow;
use std::sync::Arc;

use super::{AskNext, CallNext, Hook};
use crate::error::Result;
use crate::message::{Audio, Document, Image, Message, Part, ReplyPart, Source};
use crate::model::{Reply, Request};
use crate::tool::ToolOutput;

/// Returns a hook that replaces texts before a model reads them.
///
/// The closure gets each text and returns it changed, or borrowed if there is nothing to replace.
/// It gets the texts of tool outputs and of tool errors for the model, and all texts of the messages
/// in a request, also those of documents of a type such as `text/plain`. It does not get texts with a
/// provider's data, reasoning, or the arguments of calls, because a provider expects them unchanged,
/// and not other content, such as a PDF.
///
/// A tool's [value](crate::ToolOutput::value) stays as it is, for the program.
///
/// ```
/// use std::borrow::Cow;
///
/// use toolwright_module::Context;
/// use toolwright_module::hook::redact;
///
/// let cx = Context::default().with_hook(redact(|text| {
///     if text.contains("sk-live-1") {
///         Cow::Owned(text.replace("sk-live-1", "[key]"))
///     } else {
///         Cow::Borrowed(text)
///     }
/// }));
/// ```
pub fn redact<F>(replace: F) -> impl Hook
where
    F: Fn(&str) -> Cow<'_, str> + Send + Sync + 'static,
{
    Redact(replace)
}

struct Redact<F>(F);

impl<F> Redact<F>
where
    F: Fn(&str) -> Cow<'_, str> + Send + Sync + 'static,
{
    /// Returns the text if it changes.
    fn text(&self, text: &str) -> Option<String> {
        match (self.0)(text) {
            Cow::Borrowed(same) if same == text => None,
            changed => Some(changed.into_owned()),
        }
    }

    fn part(&self, part: &Part) -> Option<Part> {
        match part {
            Part::Text(text) => self.text(text).map(Part::Text),
            Part::Image(image) => Some(Image::from(self.source(&image.source)?).into()),
            Part::Document(document) => Some(Document::from(self.source(&document.source)?).into()),
            Part::Audio(audio) => Some(Audio::from(self.source(&audio.source)?).into()),
        }
    }

    /// Providers send content of a type such as `text/plain` as text.
    fn source(&self, source: &Source) -> Option<Source> {
        source.edited(|text| self.text(text))
    }

    fn reply_part(&self, part: &ReplyPart) -> Option<ReplyPart> {
        match part {
            ReplyPart::Text(text) if text.opaque.is_none() => self.text(text).map(ReplyPart::text),
            _ => None,
        }
    }

    /// Returns the message if it changes. Otherwise it stays shared.
    fn message(&self, message: &Message) -> Option<Message> {
        match message {
            Message::System { text } => self.text(text).map(|text| Message::System { text }),
            Message::User { parts } => {
                changed(parts, |part| self.part(part)).map(|parts| Message::User { parts })
            }
            Message::Assistant { parts } => changed(parts, |part| self.reply_part(part))
                .map(|parts| Message::Assistant { parts }),
            Message::Tool(result) => {
                let parts = changed(&result.parts, |part| self.part(part));
                let text = self.text(&result.text);
                // A request that was not made by `Request::new` may have a whole text.
                let has_whole = result.whole.is_some();
                (text.is_some() || parts.is_some() || has_whole).then(|| {
                    let mut result = result.clone();
                    (result.whole, result.lost_bytes) = (None, 0);
                    result.text = text.unwrap_or(result.text);
                    result.parts = parts.unwrap_or(result.parts);
                    Message::Tool(result)
                })
            }
        }
    }

    fn output(&self, mut output: ToolOutput, next: CallNext<'_>) -> ToolOutput {
        let text = self.text(&output.text);
        let parts = changed(&output.parts, |part| self.part(part));
        if text.is_some() || parts.is_some() {
            next.changed();
        }
        output.text = text.unwrap_or(output.text);
        output.parts = parts.unwrap_or(output.parts);
        output
    }
}

fn changed<T: Clone>(items: &[T], change: impl Fn(&T) -> Option<T>) -> Option<Vec<T>> {
    let changes: Vec<Option<T>> = items.iter().map(change).collect();
    if changes.iter().all(Option::is_none) {
        return None;
    }
    let both = items.iter().zip(changes);
    Some(both.map(|(item, change)| change.unwrap_or_else(|| item.clone())).collect())
}

impl<F> Hook for Redact<F>
where
    F: Fn(&str) -> Cow<'_, str> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "redact"
    }

    async fn model(&self, mut request: Request, next: AskNext<'_>) -> Result<Reply> {
        let replaced = changed(&request.messages, |message| self.message(message).map(Arc::new));
        if let Some(messages) = replaced {
            request.messages = messages;
            next.changed();
        }
        next.run(request).await
    }

    async fn tool(&self, arguments: String, next: CallNext<'_>) -> Result<ToolOutput> {
        match next.run(arguments).await {
            Ok(output) => Ok(self.output(output, next)),
            Err(error) => match self.text(&error.for_model()) {
                None => Err(error),
                Some(text) => {
                    next.changed();
                    Err(error.with_text_for_model(text))
                }
            },
        }
    }
}
