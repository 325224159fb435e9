//! Contracts made from another contract: with another name, other names for a field, or more output.

use serde_json::Value;

use super::{Caches, Contract, Media, Output, or_words};
use crate::error::{Refusal, Result, SchemaFault, Side};
use crate::name;
use crate::reading::Readable;
use crate::schema::keywords::has_type;
use crate::schema::types::Types;
use crate::schema::{self, Keywords};
use crate::wire_shapes::RESULT;

impl Contract {
    /// Returns the contract with another name.
    ///
    /// # Errors
    ///
    /// [`ContractError::Name`] means that providers do not accept the name.
    ///
    /// [`ContractError::Name`]: crate::ContractError::Name
    pub fn named(&self, name: &str) -> Result<Self> {
        name::check(name)?;
        Ok(Self { name: name.to_owned(), ..self.clone() })
    }

    /// Returns the contract with another description.
    #[must_use]
    pub fn described(&self, description: &str) -> Self {
        Self { description: or_words(description.to_owned(), &self.name), ..self.clone() }
    }

    /// Returns the contract with the text field `field` restricted to `names`.
    ///
    /// The field may be the path of a field inside others: `shape.class`. A list on the way, as in
    /// `shapes.class`, restricts the field of each item, and a list of texts each text.
    ///
    /// Use it for names that are known only at run time, such as registered classes, tables or
    /// agents. The model sees the names in the schema, and reading rejects any other name. A
    /// look-up by the field's value then always succeeds.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use std::collections::BTreeMap;
    /// # use toolwright_signature::{Contract, Signature};
    /// /// Draw a shape.
    /// #[derive(Debug, Serialize, Deserialize, JsonSchema)]
    /// struct Draw {
    ///     shape: String,
    /// }
    ///
    /// impl Signature for Draw {
    ///     type Output = String;
    /// }
    ///
    /// let corners = BTreeMap::from([("Circle", 0), ("Square", 4)]);
    /// let contract = Contract::of::<Draw>()?.allowing("shape", corners.keys().copied())?;
    ///
    /// let draw: Draw = contract.read(r#"{"shape": "Square"}"#)?;
    /// assert_eq!(corners[&*draw.shape], 4);
    ///
    /// let error = contract.read::<Draw>(r#"{"shape": "Line"}"#).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "input of `draw` does not fit: \
    ///      $.shape: expected one of `Circle`, `Square`, got the string \"Line\""
    /// );
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] means that the input has no such field, that the field is not a
    /// text (it may be optional or nullable), or that `names` is empty.
    ///
    /// [`ContractError::Schema`]: crate::ContractError::Schema
    pub fn allowing<'a>(
        &self,
        field: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let refused = |reason: &str| {
            let path = format!("$.{field}");
            self.refused(Side::Input, Refusal::new(SchemaFault::Field, &path, reason))
        };
        let mut names: Vec<Value> = names.into_iter().map(Value::from).collect();
        if names.is_empty() {
            return Err(refused("no name is allowed, so no call could fit; give at least one"));
        }
        let mut input = Value::clone(&self.input.source);
        let of_field = field_at(&mut input, field).map_err(refused)?;
        match Types::of_keyword(of_field.get("type").unwrap_or(&Value::Null)) {
            Types::TEXT => {}
            kinds if kinds == Types::TEXT.with(Types::NULL) => names.push(Value::Null),
            _ => return Err(refused("it is not a text; name a field of type `String`")),
        }
        of_field.insert("enum".to_owned(), Value::Array(names));
        Ok(Self {
            // The type itself accepts every text.
            input: Readable::checked(input, self.input.typed),
            lowered: Caches::default(),
            ..self.clone()
        })
    }

    /// Returns the contract with one more value in the output, before the output itself.
    ///
    /// The new output is `{field, "output"}`. A model produces `field` first and can use it for the
    /// output, as in a chain of thought. The original output is nested because it need not be an
    /// object.
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] means that this contract has no output schema, or that `schema` is
    /// not valid.
    ///
    /// [`ContractError::Schema`]: crate::ContractError::Schema
    pub fn asking_first(&self, field: &str, schema: Value) -> Result<Self> {
        let Some(output) = &self.output else {
            let reason = "there is no output schema, so nothing can be asked for beside it";
            return Err(self.no_output(reason));
        };
        let checked = schema::check(&schema);
        checked.map_err(|refusal| self.refused(Side::Output, refusal))?;
        let both =
            |output: &Value| schema::object([(field, schema.clone()), ("output", output.clone())]);
        let (to_read, to_write) = (both(&output.to_read.source), both(&output.to_write.source));
        let output = Output::new(to_read, to_write, output.to_read.typed);
        let media = self.media.clone().with_output_below("output");
        Ok(Self { output: Some(output), media, lowered: Caches::default(), ..self.clone() })
    }

    /// Returns the contract of the tool that ends a typed run: its arguments are this contract's
    /// output.
    ///
    /// Its name is [`FINISH`](Self::FINISH). Read its arguments with this contract's
    /// [`read_output`](Self::read_output).
    ///
    /// # Errors
    ///
    /// [`ContractError::Schema`] means that this contract has no output schema.
    ///
    /// [`ContractError::Schema`]: crate::ContractError::Schema
    pub fn finish(&self) -> Result<Self> {
        let Some(Output { to_read, .. }) = &self.output else {
            return Err(self.no_output("there is no output schema, so a run cannot end with it"));
        };
        let output = Value::clone(&to_read.source);
        let input = match schema::is_object(&output) {
            true => output,
            false => schema::object([(RESULT, output)]),
        };
        Ok(Self {
            name: Self::FINISH.to_owned(),
            title: None,
            marker: None,
            description: "Give the final answer and end. Call it alone, once you know the answer."
                .to_owned(),
            input: Readable::new(input, to_read.typed),
            unit_input: false,
            input_to_write: None,
            output: None,
            media: Media { input: self.media.output.clone(), ..Media::default() },
            lowered: Caches::default(),
        })
    }

    /// Returns the input schema for use inside another schema, at the JSON pointer `pointer`.
    ///
    /// Its references then lead to the same definitions inside the other schema.
    ///
    /// ```
    /// # use schemars::JsonSchema;
    /// # use serde::{Deserialize, Serialize};
    /// # use serde_json::json;
    /// # use toolwright_signature::{Contract, Signature};
    /// /// Draw a tree.
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Draw {
    ///     tree: Tree,
    /// }
    ///
    /// #[derive(Serialize, Deserialize, JsonSchema)]
    /// struct Tree {
    ///     branches: Vec<Tree>,
    /// }
    ///
    /// impl Signature for Draw {
    ///     type Output = String;
    /// }
    ///
    /// let draw = Contract::of::<Draw>()?.input_at("/properties/draw");
    /// assert!(draw.to_string().contains(r##""$ref":"#/properties/draw/"##), "{draw}");
    /// let plan = json!({"type": "object", "properties": {"draw": draw}, "required": ["draw"]});
    /// Contract::dynamic("plan", "Plan a drawing.", plan, None)?;
    /// # Ok::<(), toolwright_signature::ContractError>(())
    /// ```
    #[must_use]
    pub fn input_at(&self, pointer: &str) -> Value {
        let mut input = self.input().clone();
        schema::redirect(&mut input, &|reference| {
            let below = reference.strip_prefix('#')?;
            (below.is_empty() || below.starts_with('/')).then(|| format!("#{pointer}{below}"))
        });
        input
    }
}

/// Returns the schema of the field at a path of names, such as `shape.class`. Lists and options on the
/// way stand for the values in them. An error is the reason why the path cannot be followed.
fn field_at<'s>(schema: &'s mut Value, path: &str) -> Result<&'s mut Keywords, &'static str> {
    const NONE: &str = "there is no such field; name one of the input's own fields";
    let is_whole = schema.get("properties").is_some_and(|fields| fields.get(path).is_some());
    let mut names = if is_whole { vec![path] } else { path.split('.').collect() };
    names.reverse();
    let mut found = schema;
    while let Some(name) = names.pop() {
        let field = found.get_mut("properties").and_then(|fields| fields.get_mut(name));
        found = field.and_then(inner).ok_or(NONE)?;
        if found.get("$ref").is_some() {
            return Err(
                "it leads through a type that contains itself, whose other uses it would restrict too",
            );
        }
    }
    found.as_object_mut().ok_or(NONE)
}

/// Returns the schema of the items of a list, and of the value in an option.
fn inner(schema: &mut Value) -> Option<&mut Value> {
    let is_list = schema.as_object().is_some_and(|map| has_type(map, "array"));
    let is_null = |member: &Value| member.get("type").is_some_and(|kind| kind == "null");
    let members = schema.get("anyOf").and_then(Value::as_array);
    let option = members.and_then(|members| match &members[..] {
        [_, second] if is_null(second) => Some("/anyOf/0"),
        [first, _] if is_null(first) => Some("/anyOf/1"),
        _ => None,
    });
    match option.or((is_list && schema.get("items").is_some()).then_some("/items")) {
        Some(below) => inner(schema.pointer_mut(below)?),
        None => Some(schema),
    }
}
