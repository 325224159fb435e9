use serde_json::{Value, json};
use toolwright_module::error::ContextExceeded;
use toolwright_module::model::Usage;

use super::ServerError;
use crate::ProviderError;

fn refused(status: u16, body: &str) -> ProviderError {
    let ServerError { code, message } =
        ServerError::of(&serde_json::from_str(body).unwrap_or_default());
    ProviderError::Status {
        status,
        request_id: None,
        code,
        message: message.unwrap_or_default(),
        retry_after: None,
        body: body.to_owned(),
    }
}

/// An error of OpenAI's form with this message.
fn says(message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error"}})
}

fn of_code(code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": "invalid_request_error", "code": code}})
}

/// The errors of servers: status, body, tokens and window.
fn too_long() -> Vec<(u16, Value, Option<u64>, Option<u64>)> {
    let two = |tokens, window| (Some(tokens), Some(window));
    let all = [
        // OpenAI and Azure.
        (
            400,
            of_code(
                "context_length_exceeded",
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens. Please reduce the length of the messages.",
            ),
            two(9000, 8192),
        ),
        (
            400,
            of_code(
                "context_length_exceeded",
                "This model's maximum context length is 4097 tokens. However, you requested 4295 tokens (3245 in the messages, 1050 in the completion). Please reduce the length of the messages or completion.",
            ),
            two(4295, 4097),
        ),
        (
            400,
            says(
                "This model's maximum context length is 4097 tokens, however you requested 4162 tokens (1090 in your prompt; 3072 for the completion). Please reduce your prompt; or completion length.",
            ),
            two(4162, 4097),
        ),
        (
            400,
            of_code(
                "context_length_exceeded",
                "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 289650 tokens. Please reduce the length of the messages.",
            ),
            two(289_650, 272_000),
        ),
        (
            400,
            of_code(
                "context_length_exceeded",
                "Your input exceeds the context window of this model. Please adjust your input and try again.",
            ),
            (None, None),
        ),
        (400, says("Your input exceeds the model's context window."), (None, None)),
        (400, says("The prompt exceeds this model's context window."), (None, None)),
        (
            400,
            of_code(
                "array_above_max_length",
                "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 2051 instead.",
            ),
            (None, None),
        ),
        (
            400,
            of_code(
                "string_above_max_length",
                "Invalid 'messages[3].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1099999 instead.",
            ),
            (None, None),
        ),
        (
            400,
            of_code(
                "string_above_max_length",
                "Invalid 'input[0].content[0].text': string too long. Expected a string with maximum length 1048576, but got a string with length 1891965 instead.",
            ),
            (None, None),
        ),
        (
            400,
            of_code(
                "string_above_max_length",
                "Invalid 'input[52].output': string too long. Expected a string with maximum length 10485760, but got a string with length 18638187 instead.",
            ),
            (None, None),
        ),
        // LiteLLM, in front of another server.
        (
            400,
            json!({"error": {"message": "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - {\"error\": {\"message\": \"This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.\"}}", "type": null, "param": null, "code": "400"}}),
            two(9000, 8192),
        ),
        // Anthropic.
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}),
            two(210_000, 200_000),
        ),
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 199000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}),
            two(219_000, 200_000),
        ),
        // Gemini and Vertex AI.
        (
            400,
            json!({"error": {"code": 400, "message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}),
            two(1_200_000, 1_048_576),
        ),
        (
            400,
            json!([{"error": {"code": 400, "message": "The input token count exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}]),
            (None, Some(1_048_576)),
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "Unable to submit request because the input token count is 34048 but model only supports up to 32768. Reduce the input token count and try again.", "status": "INVALID_ARGUMENT"}}),
            two(34_048, 32_768),
        ),
        // llama.cpp.
        (
            400,
            json!({"error": {"code": 400, "message": "the request exceeds the available context size, try increasing it", "type": "exceed_context_size_error", "n_prompt_tokens": 5021, "n_ctx": 4096}}),
            two(5021, 4096),
        ),
        (
            400,
            json!({"error": {"code": 400, "message": "request (5021 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error"}}),
            two(5021, 4096),
        ),
        (
            500,
            json!({"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}),
            (None, None),
        ),
        // llama-cpp-python, new and old.
        (400, says("Requested tokens (5136) exceed context window of 4096"), two(5136, 4096)),
        (400, says("Requested tokens exceed context window of 512"), (None, Some(512))),
        // vLLM.
        (
            400,
            json!({"object": "error", "message": "This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.", "type": "BadRequestError", "param": null, "code": 400}),
            two(122_946, 16_384),
        ),
        (
            400,
            json!({"error": {"message": "This model's maximum context length is 2048 tokens. However, your request has 8 input tokens plus 2045 'max_tokens'. Please reduce one or the other. (parameter=input_tokens, max_tokens, value=(8, 2045))", "type": "BadRequestError", "param": "input_tokens, max_tokens", "code": 400}}),
            two(2053, 2048),
        ),
        (
            400,
            json!({"error": {"message": "This model's maximum context length is 32768 tokens. However, you requested 4096 output tokens and your prompt contains at least 28673 input tokens, for a total of at least 32769 tokens. Please reduce the length of the input prompt or the number of requested output tokens.", "type": "BadRequestError", "param": "input_tokens", "code": 400}}),
            two(32_769, 32_768),
        ),
        (
            400,
            json!({"error": {"message": "'max_tokens' or 'max_completion_tokens' is too large: 1000. This model's maximum context length is 2048 tokens and your request has 1500 input tokens (1000 > 2048 - 1500).", "type": "BadRequestError", "code": 400}}),
            two(2500, 2048),
        ),
        (
            400,
            json!({"error": {"message": "You passed 4097 input tokens and requested 10 output tokens. However, the model's context length is only 4096 tokens, resulting in a maximum input length of 4086 tokens. Please reduce the length of the input prompt.", "code": 400}}),
            two(4107, 4096),
        ),
        (
            400,
            json!({"object": "error", "message": "The decoder prompt (length 10127) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller than the number of text tokens plus multimodal tokens.", "type": "BadRequestError", "param": null, "code": 400}),
            two(10_127, 8192),
        ),
        (
            400,
            says(
                "The prompt (total length 25938) is too long to fit into the model (context length 4096).",
            ),
            two(25_938, 4096),
        ),
        (
            400,
            says("Prompt length of 5016 is longer than the maximum model length of 4096."),
            two(5016, 4096),
        ),
        (
            400,
            json!({"error": {"message": "The engine prompt length 227861 exceeds the max_model_len 131072. Please reduce prompt.", "type": "invalid_request_error", "param": "input", "code": 400}}),
            two(227_861, 131_072),
        ),
        // SGLang, and Together.
        (
            400,
            json!({"object": "error", "message": "The input (61709 tokens) is longer than the model's context length (40960 tokens).", "type": "BadRequestError", "param": null, "code": 400}),
            two(61_709, 40_960),
        ),
        (
            400,
            says(
                "Input length (160062 tokens) exceeds the maximum allowed length (59862 tokens). Use a shorter input or enable --allow-auto-truncate.",
            ),
            two(160_062, 59_862),
        ),
        (
            400,
            says(
                "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of 135000 tokens: 131000 tokens from the input messages and 4000 tokens for the completion.",
            ),
            two(135_000, 131_072),
        ),
        (
            400,
            says("Input length (265330) exceeds model's maximum context length (262144)."),
            two(265_330, 262_144),
        ),
        (
            422,
            says(
                "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 65537. Given: 79993 `inputs` tokens and 1024 `max_new_tokens`",
            ),
            two(81_017, 65_537),
        ),
        (
            422,
            says("Input validation error: `inputs` must have less than 2048 tokens. Given: 2222"),
            two(2222, 2048),
        ),
        // LM Studio.
        (
            400,
            json!({"error": "Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input."}),
            two(10_136, 7866),
        ),
        (
            400,
            json!({"error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}),
            two(13_055, 4096),
        ),
        (
            400,
            json!({"error": "Reached context length of 4096 tokens with model (arch: llama) that does not currently support mid-generation context overflow."}),
            (None, Some(4096)),
        ),
        // Ollama.
        (
            400,
            json!({"error": "prompt too long; exceeded max context length by 120 tokens"}),
            (None, None),
        ),
        // Mistral.
        (
            400,
            json!({"object": "error", "message": "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_prompt", "param": null, "code": "3051"}),
            two(40_000, 32_768),
        ),
        // Groq and Cerebras.
        (
            400,
            of_code(
                "context_length_exceeded",
                "Please reduce the length of the messages or completion.",
            ),
            (None, None),
        ),
        (
            400,
            json!({"message": "Please reduce the length of the messages or completion. Current length is 42328 while limit is 40000", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}),
            two(42_328, 40_000),
        ),
        // OpenRouter, by itself and for a server behind it.
        (
            400,
            json!({"error": {"message": "This endpoint's maximum context length is 1048576 tokens. However, you requested about 1293741 tokens (1227853 of text input, 353 of tool input, 65535 in the output). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.", "code": 400}}),
            two(1_293_741, 1_048_576),
        ),
        (
            400,
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}}", "provider_name": "Anthropic"}}}),
            two(210_000, 200_000),
        ),
        (
            400,
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "Input length 200000 exceeds the maximum allowed input length of 131,040 tokens."}}}),
            two(200_000, 131_040),
        ),
        // Bedrock.
        (400, json!({"message": "Input is too long for requested model."}), (None, None)),
        (
            400,
            json!({"message": "Too many input tokens. Max input tokens: 8192, request input token count: 9001"}),
            two(9001, 8192),
        ),
        // DeepSeek.
        (
            400,
            says(
                "This model's maximum context length is 65536 tokens. However, you requested 82420 tokens (74228 in the messages, 8192 in the completion). Please reduce the length of the messages or completion.",
            ),
            two(82_420, 65_536),
        ),
        // xAI.
        (
            400,
            json!({"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
            two(537_812, 131_072),
        ),
        // Cohere.
        (
            400,
            json!({"message": "too many tokens: total number of tokens (prompt and prediction) cannot exceed 2048 - received 6354. Try using a shorter prompt or a smaller max_tokens value."}),
            two(6354, 2048),
        ),
        (
            400,
            json!({"message": "too many tokens: size limit exceeded by 1234 tokens. Try using shorter or fewer inputs. The limit for this model is 128000 tokens."}),
            (None, Some(128_000)),
        ),
        // Fireworks.
        (
            400,
            json!({"error": {"object": "error", "type": "invalid_request_error", "code": "invalid_request_error", "message": "The prompt is too long: 40177, model maximum context length: 32767"}}),
            two(40_177, 32_767),
        ),
        // Moonshot.
        (
            400,
            says(
                "Invalid request: Your request exceeded model token limit: 262144 (requested: 269030)",
            ),
            two(269_030, 262_144),
        ),
        // Zhipu and Z.ai.
        (
            400,
            json!({"error": {"code": "1261", "message": "Prompt exceeds max length"}}),
            (None, None),
        ),
        (
            400,
            json!({"error": {"code": "1210", "message": "tokens in request more than max tokens allowed"}}),
            (None, None),
        ),
        // MiniMax, whose 2013 is the code.
        (
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "invalid params, context window exceeds limit (2013)"}}),
            (None, None),
        ),
        (
            200,
            json!({"base_resp": {"status_code": 2013, "status_msg": "invalid params, context window exceeds limit"}}),
            (None, None),
        ),
        // SiliconFlow.
        (
            400,
            json!({"code": 20015, "message": "length of prompt_tokens (57535) must be less than max_seq_len (32768).", "data": null}),
            two(57_535, 32_768),
        ),
        // watsonx.
        (
            400,
            json!({"errors": [{"code": "invalid_input_argument", "message": "Invalid input argument for Model 'meta-llama/llama-2-70b-chat': the number of input tokens 4098 cannot exceed the total tokens limit 4096 for this model"}], "status_code": 400}),
            two(4098, 4096),
        ),
        // Cloudflare.
        (
            413,
            json!({"success": false, "errors": [{"code": 5021, "message": "AiError: The estimated number of input and maximum output tokens (35000) exceeded this model context window limit (24000)"}]}),
            two(35_000, 24_000),
        ),
        // Salesforce.
        (
            400,
            says("Request input tokens exceed model token limit. Reduce the input size."),
            (None, None),
        ),
        // Qwen of DashScope.
        (
            400,
            json!({"error": {"code": "invalid_parameter_error", "message": "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 983616]", "param": null, "type": "invalid_request_error"}}),
            (None, Some(983_616)),
        ),
        // GitHub Copilot and GitHub Models.
        (
            400,
            json!({"error": {"message": "prompt token count of 391491 exceeds the limit of 128000", "code": "model_max_prompt_tokens_exceeded"}}),
            two(391_491, 128_000),
        ),
        (
            413,
            json!({"error": {"code": "tokens_limit_reached", "message": "Request body too large for gpt-4o model. Max size: 8000 tokens.", "details": "Request body too large for gpt-4o model. Max size: 8000 tokens."}}),
            (None, Some(8000)),
        ),
    ];
    all.into_iter().map(|(status, body, (tokens, window))| (status, body, tokens, window)).collect()
}

#[test]
fn a_conversation_longer_than_the_context_is_known_for_every_server() {
    for (status, body, tokens, window) in too_long() {
        let exceeded = Some(ContextExceeded::new(tokens, window));
        // As a refusal, inside a success, and as the object in a stream.
        let inner = body.get("error").filter(|error| error.is_object());
        for error in [
            refused(status, &body.to_string()),
            ProviderError::bare_error(&body, Usage::unknown()).unwrap(),
            ProviderError::reported(inner.unwrap_or(&body), Usage::unknown()),
        ] {
            assert_eq!(error.context_exceeded(), exceeded, "{error:?}");
            assert!(!error.is_retryable(), "{error:?}");
            for way in ["shorter task", "`Agent::with_compaction`", "larger context"] {
                assert!(error.to_string().contains(way), "{error}");
            }
            let error = error.into_error();
            assert_eq!(error.context_exceeded(), exceeded);
            assert!(!error.is_retryable());
        }
    }
}

#[test]
fn more_bytes_than_the_server_takes_is_another_error_that_names_the_fix() {
    let anthropic = json!({"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}});
    let images = json!({"error": {"type": "request_too_large", "message": "Request exceeds the maximum size of images"}});
    for error in [
        refused(413, "<html>\n<h1>413 Request Entity Too Large</h1></html>"),
        refused(413, &anthropic.to_string()),
        refused(413, &images.to_string()),
        refused(413, &says("image exceeds 5 MB maximum").to_string()),
        refused(400, &anthropic.to_string()),
        ProviderError::reported(&anthropic, Usage::unknown()),
        ProviderError::reported(&json!({"code": 413, "message": "Too large."}), Usage::unknown()),
    ] {
        assert_eq!(error.context_exceeded(), None, "{error:?}");
        for way in ["more bytes", "fewer or smaller images", "limit of the server"] {
            assert!(error.to_string().contains(way), "{error}");
        }
    }
}

#[test]
fn a_rate_limit_with_the_status_of_too_many_bytes_is_not_about_bytes() {
    let limit = of_code("rate_limit_exceeded", "Request too large: Limit 6000, Requested 8000.");
    let error = refused(413, &limit.to_string()).to_string();
    assert!(!error.contains("bytes"), "{error}");
}

#[test]
fn other_errors_about_tokens_and_contexts_are_not() {
    for (status, body) in [
        (
            429,
            of_code(
                "rate_limit_exceeded",
                "Request too large for gpt-4 in organization org-1 on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced in order to run successfully.",
            ),
        ),
        (
            413,
            json!({"error": {"message": "Request too large for model `llama-3.3-70b-versatile` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): Limit 6000, Requested 8000, please reduce your message size and try again.", "type": "tokens", "code": "rate_limit_exceeded"}}),
        ),
        (
            400,
            says(
                "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
            ),
        ),
        (
            400,
            says(
                "max_tokens: 100000 > 8192, which is the maximum allowed number of output tokens for claude-3-5-sonnet",
            ),
        ),
        (
            400,
            says(
                "The maximum tokens you requested exceeds the model limit of 2048. Try again with a maximum tokens value that is lower than 2048.",
            ),
        ),
        (
            400,
            says(
                "too many tokens: max tokens must be less than or equal to 4096, the maximum output for this model - received 10000.",
            ),
        ),
        // The longest answer alone is larger than the window.
        (
            400,
            of_code(
                "context_length_exceeded",
                "This model's maximum context length is 4097 tokens. However, you requested 100020 tokens (20 in the messages, 100000 in the completion). Please reduce the length of the messages or completion.",
            ),
        ),
        (
            400,
            says(
                "'max_tokens' or 'max_completion_tokens' is too large: 50000. This model's maximum context length is 32768 tokens and your request has 20 input tokens (50000 > 32768 - 20).",
            ),
        ),
        (400, of_code("unknown_parameter", "Unknown parameter: 'context'.")),
        (400, of_code("unknown_parameter", "Unknown parameter: 'context_window'.")),
        (
            400,
            of_code(
                "array_above_max_length",
                "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 150 instead.",
            ),
        ),
        (
            400,
            of_code(
                "string_above_max_length",
                "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 64 instead.",
            ),
        ),
        (
            400,
            of_code(
                "string_above_max_length",
                "Invalid 'metadata.content': string too long. Expected a string with maximum length 512, but got a string with length 600 instead.",
            ),
        ),
        (
            400,
            of_code(
                "string_above_max_length",
                "Invalid 'metadata.output': string too long. Expected a string with maximum length 512, but got a string with length 600 instead.",
            ),
        ),
        (400, says("tool name input is too long")),
        (400, says("Request exceeds the maximum size of images")),
        (
            400,
            says(
                "messages.2.content.0.image.source.base64: image exceeds 5 MB maximum: 8259148 bytes > 5242880 bytes",
            ),
        ),
        (413, json!({"error": "request body too large for proxy buffering"})),
        (
            400,
            json!({"error": {"code": 400, "message": "Request payload size exceeds the limit: 20971520 bytes.", "status": "INVALID_ARGUMENT"}}),
        ),
        (400, says("Range of max_tokens should be [1, 8192]")),
        (
            400,
            json!({"message": "ThrottlingException: Too many tokens, please wait before trying again."}),
        ),
        (
            429,
            json!({"error": {"code": 429, "message": "You exceeded your current quota. Quota exceeded for metric: input_token_count, limit: 250000", "status": "RESOURCE_EXHAUSTED"}}),
        ),
        (
            402,
            says("Prompt tokens limit exceeded: 36163 > 29652. To increase, visit the settings."),
        ),
        (401, says("prompt is too long: 2 tokens > 1 maximum")),
        (
            422,
            json!({"detail": [{"loc": ["body", "messages", 0], "msg": "Input should be a valid string", "input": "the prompt is too long: 9 tokens > 8 maximum"}]}),
        ),
        (500, says("The server had an error.")),
    ] {
        let error = refused(status, &body.to_string());
        assert_eq!(error.context_exceeded(), None, "{error:?}");
        assert_eq!(error.into_error().context_exceeded(), None);
    }
}

#[test]
fn a_rate_limit_inside_a_success_is_not_one() {
    let error = json!({"code": 429, "message": "Please reduce the length of the messages."});
    assert_eq!(ProviderError::reported(&error, Usage::unknown()).context_exceeded(), None);
}

#[test]
fn a_long_text_with_characters_of_several_bytes_is_read_to_its_maximum() {
    let text = "é".repeat(5000);
    assert_eq!(refused(400, &says(&text).to_string()).context_exceeded(), None);
    let number = "prompt is too long: 99999999999999999999999 tokens > 200000 maximum";
    let exceeded = refused(400, &says(number).to_string()).context_exceeded();
    assert_eq!(exceeded, Some(ContextExceeded::default()));
}
