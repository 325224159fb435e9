//! [`Rules`]: what a server needs that others do not.

use std::borrow::Cow;
use std::sync::Arc;

use toolwright_module::model::{Setting, SettingSet};
use toolwright_provider::portable_id;

use crate::Service;

/// Something that a server needs or does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quirk {
    /// The schema of an answer is refused or ignored.
    NoStructuredOutput,
    /// The maximum of tokens is `max_tokens`.
    MaxTokens,
    /// Messages may have any order of roles. Others refuse some orders, because the chat templates
    /// of their models do.
    AnyOrder,
    /// Items of Responses go back without their ids.
    NoItemIds,
    /// `stream_options` is refused, or the usage is sent without it.
    NoStreamOptions,
    /// Each message of the model must have `reasoning_content`, even if that is empty.
    NeedsReasoning,
    /// Messages of Chat Completions have no field for reasoning.
    NoReasoning,
    /// The id of a call has exactly 9 letters and digits.
    NineIds,
    /// The model was trained with ids of its own, such as `functions.look:0`.
    AnyIds,
    /// The header for the key, instead of `authorization`.
    KeyHeader(&'static str),
    /// A setting that the server does not have.
    Without(Setting),
}

/// What a server needs that others do not.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    /// The provider of the reasoning and the opaque parts of Chat Completions, and of Responses.
    pub(crate) origins: [Arc<str>; 2],
    quirks: &'static [Quirk],
}

impl Rules {
    /// Returns the rules of a service. Its parts have an origin of their own, because another
    /// service cannot decrypt its reasoning.
    pub(crate) fn of_service(service: &Service) -> Self {
        let name = service.name;
        match name {
            "openai" => Self::new("", service.quirks),
            name => Self::new(&format!(":{name}"), service.quirks),
        }
    }

    /// Returns the rules of a server that is not in the list of services. The model's name says
    /// what the model needs.
    ///
    /// The maximum of tokens is `max_tokens`: every compatible server reads it, and some ignore or
    /// refuse `max_completion_tokens`. OpenAI's reasoning models refuse `max_tokens`, also behind a
    /// gateway.
    pub(crate) fn of_model(model: &str) -> Self {
        use Quirk::{AnyIds, MaxTokens, NeedsReasoning, NineIds};
        let name = model.to_ascii_lowercase();
        let is = |families: &[&str]| families.iter().any(|family| name.contains(family));
        if is(&["deepseek"]) {
            Self::new("", &[MaxTokens, NeedsReasoning])
        } else if is(&["kimi"]) {
            Self::new("", &[MaxTokens, NeedsReasoning, AnyIds])
        } else if is(&["mistral", "ministral", "magistral", "codestral", "devstral"]) {
            Self::new("", &[MaxTokens, NineIds])
        } else if is_reasoning_model_of_openai(&name) {
            Self::new("", &[])
        } else {
            Self::new("", &[MaxTokens])
        }
    }

    fn new(service: &str, quirks: &'static [Quirk]) -> Self {
        let origins = ["chat", "responses"].map(|api| format!("openai-{api}{service}").into());
        Self { origins, quirks }
    }

    pub(crate) fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// Whether messages of Chat Completions go out in the order that every server accepts.
    pub(crate) fn has_strict_order(&self) -> bool {
        !self.has(Quirk::AnyOrder)
    }

    /// Returns the id of a call in Chat Completions.
    pub(crate) fn id<'i>(&self, id: &'i str) -> Cow<'i, str> {
        const MOST: usize = 40;
        let is_nine = || id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if self.has(Quirk::NineIds) && !is_nine() {
            // A length of 0 is never accepted, so that this is always the hash.
            let hash = portable_id(id, 0).into_owned();
            return Cow::Owned(hash[hash.len() - 9..].to_owned());
        }
        match self.has(Quirk::AnyIds) && (1..=MOST).contains(&id.len()) {
            true => Cow::Borrowed(id),
            false => portable_id(id, MOST),
        }
    }

    /// Returns the name of the maximum of tokens in Chat Completions.
    pub(crate) fn max_tokens(&self) -> &'static str {
        match self.has(Quirk::MaxTokens) {
            true => "max_tokens",
            // Reasoning models of OpenAI reject the older `max_tokens`.
            false => "max_completion_tokens",
        }
    }

    /// Returns the header for the key, if it is not `authorization`.
    pub(crate) fn key_header(&self) -> Option<&'static str> {
        self.quirks.iter().find_map(|quirk| match quirk {
            Quirk::KeyHeader(name) => Some(*name),
            _ => None,
        })
    }

    /// Returns the settings that the server has, if its API has them.
    pub(crate) fn settings(&self) -> SettingSet {
        self.quirks.iter().fold(SettingSet::ALL, |settings, quirk| match quirk {
            Quirk::Without(setting) => settings.without(*setting),
            _ => settings,
        })
    }
}

/// Returns whether a name in lower case is that of a reasoning model of OpenAI, such as `gpt-5-mini`
/// or `openai/o3`. The open-weight models are called `gpt-oss`, and older ones `gpt-4`.
fn is_reasoning_model_of_openai(name: &str) -> bool {
    let begins = |name: &str, before: &str, least: u32| {
        let version = name.strip_prefix(before).map(|rest| rest.trim_start_matches('-'));
        let digits = version.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        digits.and_then(|digits| digits.parse().ok()).is_some_and(|number: u32| number >= least)
    };
    let last = name.rsplit(['/', ':']).next().unwrap_or(name);
    let last = last.strip_prefix("openai.").unwrap_or(last);
    begins(last, "gpt", 5) || begins(last, "o", 1)
}

/// Returns whether a model takes further tools within the conversation: `gpt-5.4` and later.
pub(crate) fn takes_additional_tools(name: &str) -> bool {
    let version = name.strip_prefix("gpt-").unwrap_or_default();
    let mut numbers = version.split('-').next().unwrap_or_default().split('.');
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    let major = number();
    major.is_some_and(|major| (major, number().unwrap_or_default()) >= (5, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_models_that_take_additional_tools_are_known_by_their_version() {
        for name in ["gpt-5.4", "gpt-5.4-mini", "gpt-5.6-sol", "gpt-6", "gpt-5.10"] {
            assert!(takes_additional_tools(name), "{name}");
        }
        for name in
            ["gpt-5", "gpt-5.1", "gpt-4o", "gpt-4.1", "gpt-oss-120b", "o3", "openai/gpt-5.4"]
        {
            assert!(!takes_additional_tools(name), "{name}");
        }
    }

    #[test]
    fn a_server_that_is_not_in_the_list_gets_the_maximum_that_the_model_accepts() {
        for name in ["gpt-5-mini", "openai/gpt-5.1", "o3", "azure/o4-mini", "openai.gpt-5", "gpt-6"]
        {
            assert_eq!(Rules::of_model(name).max_tokens(), "max_completion_tokens", "{name}");
        }
        for name in
            ["gpt-oss:20b", "openai/gpt-oss-120b", "gpt-4o", "gpt2", "olmo-2", "llama3.2:1b"]
        {
            assert_eq!(Rules::of_model(name).max_tokens(), "max_tokens", "{name}");
        }
        for name in ["deepseek-chat", "kimi-k2", "mistral-small-latest", "m"] {
            let rules = Rules::of_model(name);
            assert_eq!(
                (rules.max_tokens(), rules.has_strict_order()),
                ("max_tokens", true),
                "{name}"
            );
        }
    }
}
