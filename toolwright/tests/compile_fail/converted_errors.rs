use toolwright::prelude::*;

/// A library whose error takes every `std::error::Error`, as those of `anyhow` and `eyre` do.
struct Foreign;

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Foreign {
    fn from(_: E) -> Self {
        Self
    }
}

trait Explain {
    fn explain(self);
}

impl<T, E: std::error::Error + Send + Sync + 'static> Explain for Result<T, E> {
    fn explain(self) {}
}

fn ours() -> Result<u8> {
    Ok(1)
}

fn to_a_library() -> Result<u8, Foreign> {
    Ok(ours()?)
}

fn with_a_method_of_a_library() {
    ours().explain();
}

fn of_a_text(text: Option<&str>) -> Result<&str> {
    Ok(text.ok_or("name a city")?)
}

fn of_an_owned_text() -> Result<()> {
    Err(String::from("name a city"))?;
    Ok(())
}

fn of_a_boxed_error(boxed: Box<dyn std::error::Error + Send + Sync>) -> Result<()> {
    Err(boxed)?;
    Ok(())
}

fn main() {}
