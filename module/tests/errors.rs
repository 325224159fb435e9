//! Errors: their audiences, texts, causes and conversions.

use std::error::Error as StdError;
use std::io;

use toolwright_module::error::{Audience, Failure, Stage};
use toolwright_module::model::Usage;
use toolwright_module::{Error, Result};

const NEUTRAL: &str = "The tool failed. The reason is not shown to you.";

fn read_a_file() -> Result<String> {
    let error =
        io::Error::new(io::ErrorKind::NotFound, "no /home/kate/.ssh/id_ed25519 on 10.0.0.7");
    Err(error)?
}

/// What a reporter such as `anyhow` prints: the error and all its causes.
fn report(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(" <- ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[derive(Debug, thiserror::Error)]
#[error("the index is closed")]
struct IndexClosed {
    source: io::Error,
}

fn index_closed() -> IndexClosed {
    IndexClosed { source: io::Error::other("disk full") }
}

#[test]
fn an_error_converted_by_a_question_mark_is_for_the_user_and_hidden_from_the_model() {
    let error = read_a_file().unwrap_err();
    assert_eq!(error.audience(), Audience::User);
    assert_eq!(error.stage(), Stage::Module);
    assert!(!error.is_retryable());
    assert_eq!(error.for_model(), NEUTRAL);
    assert!(error.to_string().contains("id_ed25519"));
}

#[test]
fn the_model_reads_only_texts_meant_for_it() {
    let reported = [
        (Error::retry("say a city"), "say a city"),
        (Error::refuse("not today"), "not today"),
        (Error::other("10.0.0.7 is down"), NEUTRAL),
        (Error::stop("the key sk-1 was withdrawn"), NEUTRAL),
        (index_closed().into(), NEUTRAL),
    ];
    for (error, text) in reported {
        let error = error.at(Stage::Provider).with_raw("raw reply").retryable(true);
        assert_eq!(error.for_model(), text, "{error}");
    }
}

#[test]
fn every_constructor_sets_its_audience() {
    assert_eq!(Error::retry("x").audience(), Audience::ModelMayRetry);
    assert_eq!(Error::refuse("x").audience(), Audience::ModelFinal);
    assert_eq!(Error::other("x").audience(), Audience::User);
    assert_eq!(Error::stop("x").audience(), Audience::Run);
}

#[test]
fn a_cause_is_found_by_its_type_however_deep_it_is() {
    let error = Error::from(index_closed());
    assert!(error.downcast_ref::<IndexClosed>().is_some());
    assert!(error.downcast_ref::<io::Error>().is_some());
    assert!(error.downcast_ref::<std::fmt::Error>().is_none());

    let wrapped = Error::from(Wrapped { source: error.into_std() });
    assert!(wrapped.downcast_ref::<Wrapped>().is_some());
    assert!(wrapped.downcast_ref::<IndexClosed>().is_some());
    assert!(wrapped.downcast_ref::<io::Error>().is_some());
}

/// A foreign error with one of ours as its cause.
#[derive(Debug, thiserror::Error)]
#[error("the search failed")]
struct Wrapped {
    source: Failure,
}

fn known() -> Error {
    Error::retry("shorter, please")
        .at(Stage::Validation)
        .retryable(true)
        .with_raw("{\"a\": 1")
        .with_usage(Usage::new(7, 3))
}

fn assert_known(error: &Error) {
    assert_eq!(error.audience(), Audience::ModelMayRetry);
    assert_eq!(error.stage(), Stage::Validation);
    assert!(error.is_retryable());
    assert_eq!(error.raw(), Some("{\"a\": 1"));
    assert_eq!(error.usage(), Usage::new(7, 3));
    assert_eq!(error.to_string(), "shorter, please");
}

#[test]
fn an_error_survives_the_conversion_to_std_error() {
    assert_known(&Error::from(known().into_std()));

    let boxed: Box<dyn StdError + Send + Sync> = known().into();
    assert_known(&Error::from(*boxed.downcast::<Failure>().unwrap()));

    let boxed: Box<dyn StdError> = known().into();
    assert_known(&Error::from(*boxed.downcast::<Failure>().unwrap()));

    let through_a_question_mark = || -> Result<()> { Err(known().into_std())? };
    assert_known(&through_a_question_mark().unwrap_err());
}

#[test]
fn a_boxed_error_keeps_its_fields_when_it_is_converted_back() {
    let boxed: Box<dyn StdError + Send + Sync> = known().into();
    assert_known(&Error::other(boxed));

    let stopped = Error::stop(known().into_std());
    assert_eq!(stopped.audience(), Audience::Run);
    assert_eq!(stopped.raw(), known().raw());
    assert_eq!(stopped.for_model(), NEUTRAL);
}

#[test]
fn the_short_form_is_one_line_and_the_long_form_has_the_evidence() {
    let error = Error::from(index_closed())
        .at(Stage::Transport)
        .retryable(true)
        .with_raw("<html>502</html>");
    insta::assert_snapshot!(error, @"the index is closed");
    insta::assert_snapshot!(format!("{error:#}"), @r"
    the index is closed
    stage: transport (may succeed later)
    cause: disk full
    reply: <html>502</html>
    ");
    assert_eq!(format!("{error:?}"), format!("{error:#}"));
    assert_eq!(format!("{:?}", error.into_std()), {
        let again = Error::from(index_closed()).at(Stage::Transport);
        format!("{:#}", again.retryable(true).with_raw("<html>502</html>"))
    });
}

#[test]
fn no_cause_is_repeated() {
    let errors = [
        Error::from(index_closed()),
        Error::retry("say a city"),
        Error::other("down"),
        Error::stop(index_closed()),
        // A text of its own hides no cause.
        Error::refuse("not kept").with_source(index_closed()),
        Error::refuse("not done")
            .with_source(Error::refuse("not kept").with_source(index_closed()).into_std()),
    ];
    let reports: Vec<String> = errors.into_iter().map(|error| report(&error.into_std())).collect();
    insta::assert_debug_snapshot!(reports, @r#"
    [
        "the index is closed <- disk full",
        "say a city",
        "down",
        "the index is closed <- disk full",
        "not kept <- the index is closed <- disk full",
        "not done <- not kept <- the index is closed <- disk full",
    ]
    "#);
}

#[test]
fn every_stage_has_a_name() {
    let stages = [
        Stage::Arguments,
        Stage::Module,
        Stage::Transport,
        Stage::Provider,
        Stage::Decoding,
        Stage::Validation,
        Stage::Limit,
        Stage::Cancelled,
        Stage::Panic,
        Stage::Setup,
    ];
    let words = stages.map(|stage| stage.to_string()).join(" ");
    insta::assert_snapshot!(words, @"arguments module transport provider decoding validation limit cancelled panic setup");
}

#[test]
fn main_can_return_an_error() {
    fn main() -> std::result::Result<(), Box<dyn StdError>> {
        Err(known())?
    }
    assert_eq!(main().unwrap_err().to_string(), "shorter, please");
}

#[test]
fn an_error_of_ones_own_becomes_one_for_the_model() {
    fn seat(row: &str) -> Result<u8> {
        row.parse().map_err(Error::retry)
    }
    let error = seat("first").unwrap_err();
    assert_eq!(error.audience(), Audience::ModelMayRetry);
    assert_eq!(error.for_model(), "invalid digit found in string");
    let error = Error::refuse("no table is free");
    assert_eq!(error.audience(), Audience::ModelFinal);
    assert_eq!(error.for_model(), "no table is free");
    assert_eq!(Error::retry(format_args!("{} is full", 3)).for_model(), "3 is full");
}
