//! The prelude has few names, and none of them is in the way.

use std::error::Error;
use std::num::ParseIntError;

use toolwright::prelude::*;

/// `Result` with one type is the crate's, with two it is the standard library's, and an explicit
/// import takes precedence over the glob.
#[test]
fn the_prelude_stands_beside_the_standard_library() {
    fn ours() -> Result<u8> {
        Err(toolwright::Error::other("broken"))
    }
    fn theirs(text: &str) -> Result<u8, ParseIntError> {
        text.parse()
    }
    fn full() -> std::result::Result<u8, Box<dyn Error>> {
        let sum = ours().unwrap_or(1) + theirs("2")?;
        Ok(sum)
    }
    assert_eq!(full().unwrap(), 3);
}

#[test]
fn the_prelude_has_what_a_program_with_a_toolset_names() {
    fn read_only(tools: Vec<Tool>) -> Vec<Tool> {
        tools.into_iter().filter(|tool| tool.effect() == Effect::Read).collect()
    }
    assert!(read_only(Vec::new()).is_empty());

    let source = include_str!("../src/lib.rs");
    let prelude = source.split("pub mod prelude {").nth(1).unwrap();
    let lists = prelude.split('{').skip(1).filter_map(|list| list.split('}').next());
    let names: Vec<&str> = lists.flat_map(|list| list.split(',')).map(str::trim).collect();
    assert_eq!(names.len(), 12, "{names:?}");
}

/// A library whose error takes every `std::error::Error`, as that of `anyhow` does.
#[test]
fn an_error_reaches_libraries_with_an_error_of_their_own() {
    #[derive(Debug)]
    struct Foreign(String);
    impl<E: Error + Send + Sync + 'static> From<E> for Foreign {
        fn from(error: E) -> Self {
            Self(error.to_string())
        }
    }
    fn ours() -> Result<u8> {
        None.ok_or_else(|| toolwright::Error::retry("name a city"))
    }
    fn by_method() -> Result<u8, Foreign> {
        Ok(ours().map_err(toolwright::Error::into_std)?)
    }
    fn boxed() -> Result<u8, Box<dyn Error + Send + Sync>> {
        Ok(ours()?)
    }
    assert_eq!(by_method().unwrap_err().0, "name a city");
    assert_eq!(boxed().unwrap_err().to_string(), "name a city");
}

/// Errors of every layer reach the `Result` of `main` by `?`.
#[tokio::test]
async fn an_agent_needs_only_the_prelude_and_a_model() -> Result<()> {
    let agent = Agent::new(toolwright::testing::SchemaDriven::default(), [])?;
    let finished = agent.run("Hello.", &Context::default()).await?;
    assert!(!finished.answer.is_empty());
    Ok(())
}
