//! Rules for outputs that a schema cannot express.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::StreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_module::budget::Ledger;
use toolwright_module::error::{Audience, Stage};
use toolwright_module::predict::{PredictEvent, Reasoned, Validator};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    ChainOfThought, Context, Error, Message, Module, Predict, Reply, Request, Result, Signature,
    Tool,
};

use crate::support::{calling, finish};

/// Choose a table.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ChooseTable {
    guests: u32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Table {
    seats: u32,
}

impl Signature for ChooseTable {
    type Output = Table;
}

fn three() -> ChooseTable {
    ChooseTable { guests: 3 }
}

fn large_enough(choose: &ChooseTable, table: &Table) -> Result<()> {
    match table.seats >= choose.guests {
        true => Ok(()),
        false => Err(Error::retry(format!("{} guests need more seats", choose.guests))),
    }
}

/// The tables that are free.
struct Free(Vec<u32>);

/// Needs the context, and waits.
struct IsFree(Arc<AtomicU32>);

impl Validator<ChooseTable, Table> for IsFree {
    async fn check(&self, _: &ChooseTable, table: &Table, cx: &Context) -> Result<()> {
        self.0.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        let free = cx.get::<Free>().ok_or_else(|| Error::other("no list of free tables"))?;
        match free.0.contains(&table.seats) {
            true => Ok(()),
            false => Err(Error::retry(format!("no table of {} is free", table.seats))),
        }
    }
}

/// Answers with these numbers of seats in order.
fn seats(
    seats: &'static [u32],
) -> Arc<Scripted<impl Fn(&Request) -> Result<Reply> + Send + Sync + 'static>> {
    let nth = AtomicU32::new(0);
    Arc::new(Scripted::new(move |_| {
        let seats = seats[nth.fetch_add(1, Ordering::Relaxed) as usize];
        Ok(Reply::text(format!(r#"{{"seats": {seats}}}"#)))
    }))
}

fn last_user(request: &Request) -> String {
    serde_json::to_value(request.messages.last()).unwrap()["parts"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn the_model_reads_the_rule_and_answers_again() {
    let (model, checked, ledger) = (seats(&[2, 4, 6]), Arc::default(), Ledger::default());
    let choose = Predict::<ChooseTable>::new(Arc::clone(&model))
        .unwrap()
        .with_validator(large_enough)
        .with_validator(IsFree(Arc::clone(&checked)))
        .with_attempts(3);
    let cx = Context::default().with(Free(vec![6])).with_ledger(ledger.clone());
    assert_eq!(choose.call(three(), &cx).await.unwrap(), Table { seats: 6 });
    let requests = model.requests();
    insta::assert_snapshot!(last_user(&requests[1]), @"That answer cannot be used: 3 guests need more seats. Answer again, with JSON that fits the schema and nothing else.");
    insta::assert_snapshot!(last_user(&requests[2]), @"That answer cannot be used: no table of 4 is free. Answer again, with JSON that fits the schema and nothing else.");
    // The second validator did not see what the first one rejected.
    assert_eq!((checked.load(Ordering::Relaxed), ledger.spent().model_calls), (2, 3));
}

#[tokio::test]
async fn the_last_rejected_answer_is_an_error_for_the_caller_and_not_for_another_model() {
    let choose = |model| {
        Predict::<ChooseTable>::new(model)
            .unwrap()
            .with_validator(large_enough)
            // A change of the model keeps the validators.
            .with_model(seats(&[1, 2]))
            .unwrap()
    };
    let cx = Context::default();
    let error = choose(seats(&[])).call(three(), &cx).await.unwrap_err();
    assert_eq!((error.stage(), error.audience()), (Stage::Validation, Audience::User));
    assert_eq!(error.to_string(), "3 guests need more seats");
    assert_eq!(error.raws().collect::<Vec<_>>(), [r#"{"seats": 1}"#, r#"{"seats": 2}"#]);

    let tool = Tool::new(choose(seats(&[]))).unwrap();
    let error = tool.call(r#"{"guests": 3}"#, &cx).await.unwrap_err();
    assert_eq!(error.for_model(), "The tool failed. The reason is not shown to you.");
}

#[tokio::test]
async fn any_other_error_of_a_validator_fails_the_call() {
    let model = seats(&[4, 4]);
    let choose = Predict::<ChooseTable>::new(Arc::clone(&model))
        .unwrap()
        .with_validator(IsFree(Arc::default()));
    let error = choose.call(three(), &Context::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "no list of free tables");
    assert_eq!((error.raw(), model.requests().len()), (Some(r#"{"seats": 4}"#), 1));
}

#[tokio::test]
async fn streams_and_chains_of_thought_are_validated_too() {
    let cx = Context::default().with(Free(vec![4]));
    let choose = Predict::<ChooseTable>::new(seats(&[2, 4]))
        .unwrap()
        .with_validator(large_enough)
        .with_validator(IsFree(Arc::default()));
    let mut events = Vec::new();
    let mut stream = choose.stream(three(), &cx);
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            PredictEvent::Text(text) => events.push(text),
            other => events.push(format!("{other:?}")),
        }
    }
    let expected =
        ["{\"seats\": ", "2}", "Discard", "{\"seats\": ", "4}", "Done(Table { seats: 4 })"];
    assert_eq!(events, expected);

    let reasoned = |seats: u32| {
        let answer = format!(r#"{{"reasoning": "few", "output": {{"seats": {seats}}}}}"#);
        finish(&answer)
    };
    for streamed in [false, true] {
        let model = Scripted::replies([reasoned(2), reasoned(4)]).with_capabilities(calling());
        let choose =
            ChainOfThought::<ChooseTable>::new(model).unwrap().with_validator(large_enough);
        let answer = match streamed {
            false => choose.answer(three(), &cx).await.unwrap().value,
            true => {
                let mut events: Vec<_> = choose.stream(three(), &cx).collect().await;
                match events.pop() {
                    Some(Ok(PredictEvent::Done(answer))) => answer,
                    other => panic!("{other:?}"),
                }
            }
        };
        assert_eq!(answer.output, Table { seats: 4 });
        let _: Reasoned<Table> = answer;
    }
    let model = Scripted::replies([reasoned(2), reasoned(2)]).with_capabilities(calling());
    let choose = ChainOfThought::<ChooseTable>::new(model).unwrap().with_validator(large_enough);
    let mut events: Vec<_> = choose.stream(three(), &cx).collect().await;
    assert_eq!(events.pop().unwrap().unwrap_err().stage(), Stage::Validation);
}

/// Choose a date.
#[derive(Serialize, Deserialize, JsonSchema)]
struct ChooseHour {}

/// An hour at which the shop is open.
#[derive(Debug, PartialEq, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "u8", into = "u8")]
struct Hour(u8);

impl TryFrom<u8> for Hour {
    type Error = String;

    fn try_from(hour: u8) -> Result<Self, String> {
        match hour {
            9..=17 => Ok(Self(hour)),
            _ => Err(format!("{hour} is not an hour from 9 to 17")),
        }
    }
}

impl From<Hour> for u8 {
    fn from(hour: Hour) -> Self {
        hour.0
    }
}

#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Meeting {
    hour: Hour,
}

impl Signature for ChooseHour {
    type Output = Meeting;
}

#[tokio::test]
async fn a_conversion_of_serde_is_a_validator() {
    let nth = AtomicU32::new(0);
    let model = Arc::new(Scripted::new(move |_| {
        let hour = [22, 11][nth.fetch_add(1, Ordering::Relaxed) as usize];
        Ok(Reply::text(format!(r#"{{"hour": {hour}}}"#)))
    }));
    let choose = Predict::<ChooseHour>::new(Arc::clone(&model)).unwrap();
    let meeting = choose.call(ChooseHour {}, &Context::default()).await.unwrap();
    assert_eq!(meeting, Meeting { hour: Hour(11) });
    insta::assert_snapshot!(last_user(&model.requests()[1]), @"That answer cannot be used: output of `choose_hour` does not fit: $.hour: 22 is not an hour from 9 to 17. Answer again, with JSON that fits the schema and nothing else.");
    let Message::System { text } = &*model.requests()[0].messages[0] else { panic!() };
    assert!(text.contains(r#""hour":{"#), "{text}");
}
