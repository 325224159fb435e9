//! The reading of an agent's answer into its type.

use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_module::error::Audience;
use toolwright_module::model::BoxFuture;
use toolwright_module::predict::Validators;
use toolwright_module::{Context, Policy, Result};
use toolwright_signature::{Contract, ContractError, Reading, Signature};

use crate::driver::{Judge, Verdict};
use crate::run::Run;
use crate::task::Task;

/// How the answer of a run is read. It is a value, so that agents need no trait for it.
pub(super) enum Reader<O> {
    /// The answer is the text of the model.
    Text(fn(String) -> O),
    /// The answer is the output of a contract.
    Output { contract: Arc<Contract>, read: ReadOutput<O> },
}

type ReadOutput<O> = fn(&Contract, &str, Policy) -> Result<Reading<O>, ContractError>;

impl<O> Reader<O> {
    fn read(
        &self,
        run: &Run,
        answer: &str,
        policy: Policy,
    ) -> Result<(O, Option<Reading<()>>), ContractError> {
        match self {
            Self::Output { contract, read } => {
                let (value, reading) = read(contract, answer, policy)?.split();
                Ok((value, Some(reading)))
            }
            Self::Text(of) => {
                // The stored run decides: it may have been begun with another output, or with none.
                let reading = run.output().map(|it| it.read_output_with::<Value>(answer, policy));
                let reading = reading.transpose()?.map(|reading| reading.split().1);
                Ok((of(answer.to_owned()), reading))
            }
        }
    }
}

impl<O> Clone for Reader<O> {
    fn clone(&self) -> Self {
        match self {
            Self::Text(of) => Self::Text(*of),
            Self::Output { contract, read } => {
                Self::Output { contract: Arc::clone(contract), read: *read }
            }
        }
    }
}

/// Reads the answer of a run, and checks it with the validators.
pub(super) struct Reads<'a, O> {
    pub(super) reader: &'a Reader<O>,
    pub(super) validators: &'a Validators<Task, O>,
    pub(super) policy: Policy,
    /// The answer that was taken.
    pub(super) value: Option<O>,
}

impl<O: Send + Sync> Judge for Reads<'_, O> {
    fn judge<'a>(
        &'a mut self,
        run: &'a Run,
        answer: &'a str,
        cx: &'a Context,
    ) -> BoxFuture<'a, Result<Verdict>> {
        Box::pin(async move {
            let (value, reading) = match self.reader.read(run, answer, self.policy) {
                Ok(read) => read,
                Err(fault) => {
                    return Ok(Verdict::Rejected(format!("{fault}. Call `finish` again.")));
                }
            };
            if !self.validators.is_empty()
                && let Err(error) = self.validators.check(&run.as_task(), &value, cx).await
            {
                if error.audience() != Audience::ModelMayRetry {
                    return Err(error);
                }
                let why = error.for_model();
                return Ok(Verdict::Rejected(match self.reader {
                    Reader::Text(_) => why.into_owned(),
                    Reader::Output { .. } => format!("{why} Call `finish` again."),
                }));
            }
            self.value = Some(value);
            Ok(Verdict::Taken(reading))
        })
    }
}

/// The signature of an agent whose answer has this type. Its task is a text, so it has no fields.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(bound = "")]
#[schemars(rename = "AnswerOfAnAgent", bound = "T: JsonSchema")]
pub(super) struct Answers<T> {
    #[serde(skip)]
    of: PhantomData<fn() -> T>,
}

impl<T> Signature for Answers<T>
where
    T: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static,
{
    type Output = T;

    fn name() -> std::borrow::Cow<'static, str> {
        Contract::name_of::<T>().into()
    }
}
