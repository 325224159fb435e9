//! Reads from a server's error that the conversation is longer than the model's context.
//!
//! No API has one form for this error, so the servers' codes and texts are listed here. Most are from
//! public bug reports and from the list that the agent pi keeps (`overflow.ts`).

use serde_json::Value;
use toolwright_module::error::ContextExceeded;

use super::server_error::{ServerError, inner};
use crate::ending::{is_same, is_window_full};

/// Maximum length of a text that is read, in bytes.
const MAX_TEXT: usize = 4096;

/// Codes that mean only this, beside the words of a [full window](is_window_full).
const CODES: &[&str] = &[
    // llama.cpp.
    "exceed_context_size_error",
    // GitHub Copilot and GitHub Models.
    "model_max_prompt_tokens_exceeded",
    "max_prompt_tokens_exceeded",
    "tokens_limit_reached",
    // LiteLLM.
    "ContextWindowExceededError",
    // Zhipu and Z.ai.
    "1261",
];

/// Texts that mean it, in lower case. A name in braces is a number; `{nth}` is
/// a place in a list.
const TEXTS: &[&str] = &[
    // OpenAI, Azure, DeepSeek, vLLM, OpenRouter, Bedrock.
    "maximum context length is {window}",
    // OpenAI.
    "input tokens exceed the configured limit of {window}",
    "exceeds the context window",
    "exceeds the model's context window",
    "exceeds this model's context window",
    // OpenAI: more messages or characters than it takes.
    "'messages': array too long",
    "'input': array too long",
    "'input': string too long",
    "'messages[{nth}].content': string too long",
    "'messages[{nth}].content[{nth}].text': string too long",
    "'input[{nth}].content': string too long",
    "'input[{nth}].content[{nth}].text': string too long",
    "'input[{nth}].encrypted_content': string too long",
    "'input[{nth}].output': string too long",
    // SGLang, LiteLLM and those who use them.
    "maximum context length of {window}",
    "maximum context length ({window}",
    "input length ({tokens}) exceeds",
    "input length ({tokens} tokens) exceeds the maximum allowed length ({window}",
    "input ({tokens} tokens) is longer than the model's context length ({window}",
    // Poolside.
    "input length {tokens} exceeds the maximum allowed input length of {window}",
    // Anthropic, and Bedrock with its models.
    "prompt is too long: {tokens} tokens > {window} maximum",
    "prompt is too long",
    "exceed context limit: {input} + {answer} > {window}",
    // Bedrock.
    "input is too long for requested model",
    "too many input tokens. max input tokens: {window}, request input token count: {tokens}",
    "number of input tokens exceeds maximum length",
    // Gemini and Vertex AI.
    "input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}",
    "input token count exceeds the maximum number of tokens allowed ({window}",
    "input token count is {tokens} but model only supports up to {window}",
    // xAI.
    "maximum prompt length is {window}",
    // Groq and Cerebras.
    "reduce the length of the messages",
    // GitHub Copilot and GitHub Models.
    "prompt token count of {tokens} exceeds the limit of {window}",
    "max size: {window} tokens",
    // llama.cpp.
    "exceeds the available context size",
    "context size has been exceeded",
    // llama-cpp-python.
    "exceed context window of {window}",
    // LM Studio.
    "to keep the first {tokens} tokens when",
    "greater than the context length",
    "reached context length of {window}",
    "exceeds context length",
    // Ollama.
    "prompt too long; exceeded",
    "input length exceeds the context length",
    // vLLM.
    "prompt length of {tokens} is longer than the maximum model length of {window}",
    "engine prompt length {tokens} exceeds the max_model_len {window}",
    "prompt (length {tokens}) is longer than the maximum model length of {window}",
    "prompt (total length {tokens}) is too long to fit into the model (context length {window}",
    "prompt ({tokens} tokens) is too long and exceeds limit of {window}",
    "context length is only {window} tokens, resulting in a maximum input length",
    // Mistral.
    "too large for model with {window} maximum context length",
    // Moonshot.
    "exceeded model token limit",
    // MiniMax. The number after it is a code.
    "context window exceeds limit",
    // Zhipu and Z.ai.
    "prompt exceeds max length",
    "tokens in request more than max tokens allowed",
    // SiliconFlow.
    "length of prompt_tokens ({tokens}) must be less than max_seq_len ({window}",
    // watsonx.
    "number of input tokens {tokens} cannot exceed the total tokens limit {window}",
    // Cloudflare.
    "input and maximum output tokens ({tokens}) exceeded this model context window limit ({window}",
    "exceeded this model context window limit",
    // Salesforce.
    "input tokens exceed model token limit",
    // DashScope.
    "range of input length should be [1, {window}]",
    // Fireworks.
    "model maximum context length: {window}",
    // Together and text-generation-inference.
    "`inputs` tokens + `max_new_tokens` must be <= {window}. given: {input} `inputs` tokens and {answer}",
    "inputs tokens + max_new_tokens must be <= {window}",
    "`inputs` must have less than {window} tokens. given: {tokens}",
    // Cohere.
    "too many tokens: total number of tokens (prompt and prediction) cannot exceed {window} - received {tokens}",
    "too many tokens: total number of tokens",
    "too many tokens: size limit exceeded",
];

/// Texts with numbers, beside one of [`TEXTS`].
const NUMBERS: &[&str] = &[
    // OpenAI and those who imitate it.
    "resulted in {tokens} tokens",
    "you requested {tokens} tokens",
    "you requested about {tokens} tokens",
    "requested a total of {tokens} tokens",
    "{answer} in the completion",
    "{answer} for the completion",
    "{answer} tokens for the completion",
    "{answer} in the output",
    // vLLM.
    "for a total of at least {tokens} tokens",
    "prompt contains at least {input} input tokens",
    "prompt contains {input} input tokens",
    "request has {input} input tokens",
    "passed {input} input tokens",
    "requested {answer} output tokens",
    "plus {answer} 'max_tokens'",
    "is too large: {answer}",
    // xAI.
    "the request contains {tokens} tokens",
    // Cerebras.
    "current length is {tokens} while limit is {window}",
    // llama.cpp.
    "request ({tokens} tokens) exceeds",
    "available context size ({window}",
    // llama-cpp-python.
    "requested tokens ({tokens}) exceed",
    // LM Studio.
    "context length of only {window}",
    "n_keep: {tokens}>= n_ctx: {window}",
    // Mistral.
    "prompt contains {tokens} tokens",
    // Moonshot.
    "model token limit: {window}",
    "requested: {tokens}",
    // Fireworks.
    "prompt is too long: {tokens}",
    // Cohere.
    "limit for this model is {window}",
];

/// Texts of a limit that passes, or that is the account's.
const OF_THE_ACCOUNT: &[&str] = &[
    "rate limit",
    "rate_limit",
    "ratelimit",
    "tokens per m",
    "per minute",
    "per day",
    "(tpm)",
    "quota",
    "too many requests",
    "throttl",
    "resource_exhausted",
    "resource has been exhausted",
];

/// Returns what a server's error says of the length of the conversation, if that is the error.
///
/// A status of 413 alone is not one. It is about bytes, which may be those of one image, and a server's
/// limit of bytes says nothing of the model's context. If the answer that the request allows is alone larger than the window, no conversation would
/// fit, so that is another error.
pub(super) fn context_exceeded(
    status: Option<u16>,
    code: Option<&str>,
    message: &str,
    body: &str,
) -> Option<ContextExceeded> {
    if matches!(status, Some(401..=404 | 429)) {
        return None;
    }
    let body = serde_json::from_str::<Value>(body).unwrap_or_default();
    let error = inner(&body);
    let outer = ServerError { code: code.map(str::to_owned), message: Some(message.to_owned()) };
    // OpenRouter has the error of the server behind it there.
    let behind = error.pointer("/metadata/raw").and_then(Value::as_str);
    let behind = behind.map(|raw| match serde_json::from_str(raw) {
        Ok(error) => ServerError::of(&error),
        Err(_) => ServerError { code: None, message: Some(raw.to_owned()) },
    });
    let (mut found, mut is_it) = (Numbers::default(), false);
    for ServerError { code, message } in [outer].into_iter().chain(behind) {
        let code = code.unwrap_or_default();
        let text = message.map(|text| start(&text).to_lowercase()).unwrap_or_default();
        let code_words = code.to_lowercase();
        if OF_THE_ACCOUNT.iter().any(|words| text.contains(words) || code_words.contains(words)) {
            return None;
        }
        is_it |= is_window_full(&code) || CODES.iter().any(|known| is_same(&code, known));
        for (templates, decides) in [(TEXTS, true), (NUMBERS, false)] {
            for numbers in templates.iter().filter_map(|template| Numbers::read(template, &text)) {
                is_it |= decides;
                found.fill(numbers);
            }
        }
    }
    found.fill(Numbers {
        tokens: error["n_prompt_tokens"].as_u64(),
        window: error["n_ctx"].as_u64(),
        ..Numbers::default()
    });
    (is_it && !found.is_only_the_answer()).then(|| found.exceeded())
}

/// Returns the start of a text that may be a whole page.
fn start(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// The numbers of a text.
#[derive(Default)]
struct Numbers {
    /// All tokens that the request needs.
    tokens: Option<u64>,
    /// Tokens of the conversation.
    input: Option<u64>,
    /// Tokens of the longest answer that the request allows.
    answer: Option<u64>,
    window: Option<u64>,
}

impl Numbers {
    /// Reads a template where it first fits.
    fn read(template: &str, text: &str) -> Option<Self> {
        let starts = text.char_indices().map(|(at, _)| at).filter(|at| {
            // Not in the middle of a number.
            !template.starts_with('{') || !text[..*at].ends_with(|c: char| c.is_ascii_digit())
        });
        starts.into_iter().find_map(|at| Self::read_at(template, &text[at..]))
    }

    fn read_at(mut template: &str, mut text: &str) -> Option<Self> {
        let mut numbers = Self::default();
        while let Some((words, rest)) = template.split_once('{') {
            let (name, rest) = rest.split_once('}')?;
            let (number, after) = number(text.strip_prefix(words)?)?;
            match name {
                "tokens" => numbers.tokens = Some(number),
                "input" => numbers.input = Some(number),
                "answer" => numbers.answer = Some(number),
                "window" => numbers.window = Some(number),
                _ => {}
            }
            (template, text) = (rest, after);
        }
        text.starts_with(template).then_some(numbers)
    }

    /// Adds the numbers that are not yet known.
    fn fill(&mut self, other: Self) {
        self.tokens = self.tokens.or(other.tokens);
        self.input = self.input.or(other.input);
        self.answer = self.answer.or(other.answer);
        self.window = self.window.or(other.window);
    }

    fn sum(&self) -> Option<u64> {
        let sum = self.input.map(|input| input.saturating_add(self.answer.unwrap_or_default()));
        self.tokens.or(sum)
    }

    /// Returns whether the answer alone is larger than the window, and the conversation is not.
    fn is_only_the_answer(&self) -> bool {
        let (Some(answer), Some(window)) = (self.answer, self.window) else { return false };
        let input = self.input.or(self.tokens.map(|tokens| tokens.saturating_sub(answer)));
        answer >= window && input.is_none_or(|input| input < window)
    }

    fn exceeded(&self) -> ContextExceeded {
        ContextExceeded::new(self.sum(), self.window)
    }
}

/// Reads a number, which may have commas or underscores, and returns the text after it.
fn number(text: &str) -> Option<(u64, &str)> {
    let mut number = None::<u64>;
    for (at, c) in text.char_indices() {
        match c.to_digit(10) {
            Some(digit) => {
                let so_far = number.unwrap_or_default();
                number = Some(so_far.checked_mul(10)?.checked_add(digit.into())?);
            }
            None if matches!(c, ',' | '_')
                && number.is_some()
                && text[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {}
            None => return Some((number?, &text[at..])),
        }
    }
    Some((number?, ""))
}

#[cfg(test)]
mod tests;
