//! A contract in a dialect: its schemas, example values, and the whole tool.
//!
//! Each schema is lowered at the first call and cached.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::Contract;
use crate::error::{ContractError, Refusal, Result, Side, shortened_path};
use crate::limits::SCHEMA_DEPTH;
use crate::lowering::dialect::{Dialect, Lowered};
use crate::lowering::{Lowering, Parts, check_name};
use crate::schema;

impl Contract {
    /// Returns the input schema in `dialect`; computed at the first call and cached.
    ///
    /// If a strict dialect cannot express the schema, it is lowered for the same provider without
    /// the guarantee: [`Lowered::strict`] is then false, and the losses give the reason.
    /// [`LoweredRequest`] lowers all tools of a request together.
    ///
    /// [`LoweredRequest`]: crate::LoweredRequest
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use toolwright_signature::{Contract, Dialect, Signature};
    /// # #[derive(Serialize, Deserialize, JsonSchema)]
    /// # struct Find { limit: Option<u8> }
    /// # impl Signature for Find { type Output = Vec<String>; }
    /// let contract = Contract::of::<Find>()?;
    /// let strict = contract.lower(Dialect::OpenAiStrict)?;
    /// assert!(strict.schema.get().contains(r#""required":["limit"]"#));
    /// assert!(strict.losses.is_empty());
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Lowering`] means that the schema is invalid, such as a reference that leads
    /// nowhere, or that the provider does not accept the tool's name.
    pub fn lower(&self, dialect: Dialect) -> Result<&Lowered> {
        // Not cached with the schema: the same contract may have another name.
        check_name(dialect, &self.name).map_err(|refusal| self.not_lowered(dialect, refusal))?;
        kept(&self.lowered.input[dialect as usize], || {
            self.lower_now(dialect, Side::Input, self.input(), true)
        })
    }

    /// Returns the input schema without `strict`, for a request that has no room for another
    /// strict tool.
    pub(crate) fn lower_loose(&self, dialect: Dialect) -> Result<&Lowered> {
        kept(&self.lowered.loose_input[dialect as usize], || {
            self.lower_now(dialect, Side::Input, self.input(), false)
        })
    }

    /// Returns the output schema in `dialect`, with an object at its root.
    ///
    /// An output that is not a plain object is wrapped as `{"result": …}`, and
    /// [`Contract::read_output`] unwraps it. For MCP the result is the schema of a tool's serialized output. For all other
    /// dialects it is the schema of an output that a model has to produce.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] means that the contract has no output schema. The other errors are
    /// those of [`Contract::lower`].
    pub fn lower_output(&self, dialect: Dialect) -> Result<&Lowered> {
        kept(&self.lowered.output[dialect as usize], || {
            let output = match dialect {
                Dialect::Mcp => self.output_to_write(),
                _ => self.output_to_read(),
            };
            let Some(output) = output else {
                let reason = "there is no output schema, so a model cannot be asked for the output";
                return Err(self.no_output(reason));
            };
            self.lower_now(dialect, Side::Output, output, true)
        })
    }

    fn lower_now(
        &self,
        dialect: Dialect,
        side: Side,
        schema: &Value,
        may_be_strict: bool,
    ) -> Result<Lowered> {
        // A model writes the values of every lowered schema, except the outputs of MCP tools.
        if side == Side::Input || dialect != Dialect::Mcp {
            self.check_written_by_model(side)?;
        }
        let wrapped = side == Side::Output && !schema::is_object(schema);
        let typed = self.input.typed;
        let lowering = Lowering { dialect, side, schema, typed, wrapped, may_be_strict };
        let Parts { schema, losses, strict, weight, renderer } =
            lowering.lower().map_err(|refusal| self.not_lowered(dialect, refusal))?;
        let schema = serde_json::value::to_raw_value(&schema)
            .map_err(|source| ContractError::write(self.name.clone(), source))?;
        let wrapper = renderer.wrapper;
        Ok(Lowered { schema, losses, strict, wrapper, weight, renderer })
    }

    fn not_lowered(&self, dialect: Dialect, refusal: Refusal) -> ContractError {
        ContractError::Lowering {
            contract: self.name.clone(),
            dialect,
            fault: refusal.fault,
            path: shortened_path(refusal.path),
            advice: refusal.advice,
        }
    }

    /// Converts an input to the shape of `dialect`, as a model would send it.
    ///
    /// Use it for examples in a prompt. `value` has the contract's own shape, as
    /// [`write_input`](Self::write_input) returns it, and [`read`](Self::read) converts the result
    /// back to it.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use toolwright_signature::{Contract, Dialect};
    /// let counts = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    /// let input = json!({"type": "object", "properties": {"counts": counts}, "required": ["counts"]});
    /// let contract = Contract::dynamic("count", "Count words.", input, None)?;
    /// let value = json!({"counts": {"a": 1}});
    /// assert_eq!(
    ///     contract.lower_value(Dialect::OpenAiStrict, &value)?,
    ///     json!({"counts": [{"key": "a", "value": 1}]}),
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`] means that the value does not fit its schema, or that it has no
    /// form in the dialect. A dialect that does not change values does not check them. The other
    /// errors are those of [`lower`](Self::lower).
    pub fn lower_value(&self, dialect: Dialect, value: &Value) -> Result<Value> {
        let unit = json!({});
        let value = if self.unit_input && value.is_null() { &unit } else { value };
        self.render(self.lower(dialect)?, Side::Input, value)
    }

    /// Converts an output to the shape of `dialect`, like [`lower_value`](Self::lower_value) for an
    /// input.
    ///
    /// # Errors
    ///
    /// [`ContractError::Reading`] has the same causes as for an input. The other errors are those
    /// of [`lower_output`](Self::lower_output).
    pub fn lower_output_value(&self, dialect: Dialect, value: &Value) -> Result<Value> {
        self.render(self.lower_output(dialect)?, Side::Output, value)
    }

    fn render(&self, lowered: &Lowered, side: Side, value: &Value) -> Result<Value> {
        lowered.renderer.render(value).map_err(|fault| ContractError::Reading {
            contract: self.name.clone(),
            side,
            faults: vec![fault],
            more: 0,
            // Serializing takes stack for each level too.
            raw: match schema::is_deeper(value, SCHEMA_DEPTH) {
                true => "…".to_owned(),
                false => value.to_string(),
            },
        })
    }

    /// Returns the whole tool as JSON in the form of `dialect`'s provider, for printing and
    /// comparing.
    ///
    /// - OpenAI's form is that of Chat Completions.
    /// - Plain JSON Schema has the name, the description, `input_schema` and `output_schema`, which
    ///   is null if there is no output schema.
    /// - MCP's form has a `title` if the type has one (`#[schemars(title = "…")]`). Its input
    ///   schema keeps the `$schema` of a [dynamic](Contract::dynamic) contract. If an older draft
    ///   was rewritten, `$schema` names 2020-12.
    ///
    /// The provider crates do not use this method: they send the parts themselves.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use toolwright_signature::{Contract, Dialect};
    /// let input = json!({"type": "object"});
    /// let contract = Contract::dynamic("ping", "Answer pong.", input, None)?;
    /// let tool = contract.tool(Dialect::Mcp)?;
    /// assert_eq!(
    ///     tool.to_string(),
    ///     r#"{"name":"ping","description":"Answer pong.","inputSchema":{"type":"object","properties":{}}}"#,
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as those of [`Contract::lower`].
    pub fn tool(&self, dialect: Dialect) -> Result<Value> {
        let Lowered { schema: input, strict, .. } = self.lower(dialect)?;
        let (name, description) = (&self.name, &self.description);
        Ok(match dialect {
            Dialect::OpenAiStrict | Dialect::OpenAiLoose => json!({
                "type": "function",
                "function": {
                    "name": name,
                    "description": description,
                    "parameters": input,
                    "strict": strict,
                },
            }),
            Dialect::Anthropic => json!({
                "name": name,
                "description": description,
                "input_schema": input,
                "strict": strict,
            }),
            Dialect::Gemini => json!({
                "name": name,
                "description": description,
                "parametersJsonSchema": input,
            }),
            Dialect::Mcp => {
                let mut tool = json!({"name": name});
                if let Some(title) = &self.title {
                    tool["title"] = json!(title);
                }
                tool["description"] = json!(description);
                tool["inputSchema"] = json!(input);
                if let (Some(marker), Some(input)) =
                    (&self.marker, tool["inputSchema"].as_object_mut())
                {
                    input.shift_insert(0, "$schema".to_owned(), json!(marker));
                }
                if self.output.is_some() {
                    tool["outputSchema"] = json!(self.lower_output(dialect)?.schema);
                }
                tool
            }
            Dialect::JsonSchema2020 => json!({
                "name": name,
                "description": description,
                "input_schema": input,
                "output_schema": self.output_to_write(),
            }),
        })
    }
}

fn kept(slot: &OnceLock<Box<Lowered>>, make: impl FnOnce() -> Result<Lowered>) -> Result<&Lowered> {
    if let Some(lowered) = slot.get() {
        return Ok(lowered);
    }
    let lowered = Box::new(make()?);
    Ok(slot.get_or_init(|| lowered))
}
