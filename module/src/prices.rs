//! [`Prices`]: the prices of models, and the table that is built in.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use crate::budget::{Money, Price};
use crate::period;

/// The prices that are built in. `prices.py` writes this file.
const BUILTIN: &str = include_str!("prices.json");

/// The prices of models.
///
/// A [`Ledger`](crate::budget::Ledger) that has no prices uses the [built-in](Self::builtin) ones. A
/// model that is not in the table has no price: its cost is unknown, and never zero.
///
/// ```
/// use toolwright_module::budget::{Money, Price, Prices};
/// use toolwright_module::model::Usage;
///
/// let prices = Prices::builtin().with("my-model", Price::per_million(0.1, 0.4));
/// let price = prices.of(Some("openai"), "gpt-5-mini-2025-08-07").unwrap();
/// assert_eq!(price.of(Usage::new(1_000_000, 0)), Money::new(0.25));
/// assert!(prices.of(Some("ollama"), "my-model").is_some());
/// // The same model may cost more at another service.
/// assert!(prices.of(Some("ollama"), "gpt-5-mini").is_none());
/// ```
#[derive(Clone, Default)]
pub struct Prices(Arc<Table>);

#[derive(Clone, Default)]
struct Table {
    /// The models whose price is the same at every service.
    anywhere: Models,
    services: BTreeMap<String, Service>,
    source: Option<String>,
    date: Option<String>,
}

#[derive(Clone)]
struct Service {
    models: Models,
    /// Other services whose prices it has for the models that are not listed here.
    like: Vec<String>,
}

/// Models by their names.
#[derive(Clone, Default)]
struct Models {
    prices: Vec<Dated>,
    /// Indices in `prices`.
    names: HashMap<String, usize>,
    /// Names of which only a part is known, with indices in `prices`.
    patterns: Vec<(Pattern, usize)>,
}

/// A price that may change on a known day.
#[derive(Clone)]
struct Dated {
    /// The present price. `None` if a model has none per token, such as one that makes images.
    price: Option<Price>,
    /// Later prices with the day on which each begins, in order.
    later: Vec<(Day, Price)>,
}

/// A day as a number, such as 20261128.
type Day = u32;

/// A part of a name, with `*` in the table for any text before or after it.
#[derive(Clone)]
struct Pattern {
    part: String,
    /// Whether other text may be before the part.
    before: bool,
    /// Whether other text may be after it.
    after: bool,
}

impl Prices {
    /// Returns the prices that are built in: those of the services that the providers of Toolwright know.
    ///
    /// They have a [date](Self::date) and a [source](Self::source), and providers change their prices. Fees
    /// that are not per token are not included, such as those of a web search that the provider makes.
    /// Where the price depends on the hour, it is the highest one. Local servers are not listed: their
    /// cost is unknown unless you set a price.
    #[must_use]
    pub fn builtin() -> Self {
        Self::builtin_ref().clone()
    }

    pub(crate) fn builtin_ref() -> &'static Self {
        // A test reads the file, so this is not empty.
        static BUILTIN_PRICES: LazyLock<Prices> =
            LazyLock::new(|| Prices::from_json(BUILTIN).unwrap_or_default());
        &BUILTIN_PRICES
    }

    /// Reads prices from JSON. All prices are in US dollars per million tokens.
    ///
    /// `services` has the models of each service, by the names that
    /// [`LanguageModel::service`](crate::LanguageModel::service) returns; `models` has those whose price
    /// is the same everywhere. A name stands for every dated version of the model too, and `*` at its
    /// begin or end for any text. The file that is built in, `module/src/prices.json` in the repository,
    /// has every field.
    ///
    /// ```
    /// use toolwright_module::budget::Prices;
    ///
    /// let prices = Prices::from_json(
    ///     r#"{
    ///         "services": {"openai": {"models": [
    ///             {"names": ["gpt-5-mini"], "input": 0.25, "cached": 0.025, "output": 2},
    ///             {"names": ["gpt-5.4"], "input": 2.5, "output": 15,
    ///                 "above": [{"tokens": 272000, "input": 5, "output": 22.5}]}
    ///         ]}},
    ///         "models": [{"names": ["my-model*"], "free": true}]
    ///     }"#,
    /// )?;
    /// assert!(prices.of(None, "my-model:7b").is_some());
    /// assert!(prices.of(Some("openai"), "gpt-4.1").is_none());
    /// # Ok::<(), toolwright_module::budget::PricesError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The text is not JSON of this form, or a price is negative, or zero without `"free": true`.
    pub fn from_json(text: &str) -> Result<Self, PricesError> {
        let file: File = serde_json::from_str(text)
            .map_err(|error| PricesError(format!("the text is not a table of prices: {error}")))?;
        if let Some(currency) = file.currency.filter(|currency| currency != "USD") {
            return Err(PricesError(format!(
                "the currency is {currency}; convert the prices to USD, which all amounts are in"
            )));
        }
        let mut services = BTreeMap::new();
        for (name, service) in file.services {
            let models = Models::read(service.models)
                .map_err(|fault| PricesError(format!("in the service `{name}`, {fault}")))?;
            services.insert(name, Service { models, like: service.like });
        }
        let anywhere = Models::read(file.models).map_err(PricesError)?;
        let (source, date) = (file.source, file.date);
        Ok(Self(Arc::new(Table { anywhere, services, source, date })))
    }

    /// Sets the price of a model, at every service.
    ///
    /// The name is that of [`LanguageModel::name`](crate::LanguageModel::name), or the one that the
    /// server reports. It stands for every dated version too.
    #[must_use]
    pub fn with(mut self, model: impl Into<String>, price: Price) -> Self {
        let price = Dated { price: Some(price), later: Vec::new() };
        Arc::make_mut(&mut self.0).anywhere.set(model.into().to_lowercase(), price);
        self
    }

    /// Returns the price of a model at a service, or `None` if it is unknown.
    #[must_use]
    pub fn of(&self, service: Option<&str>, model: &str) -> Option<&Price> {
        self.of_day(service, model, today)
    }

    fn of_day(&self, service: Option<&str>, model: &str, day: impl Fn() -> Day) -> Option<&Price> {
        let lower;
        let mut model = model;
        if model.bytes().any(|byte| byte.is_ascii_uppercase()) {
            lower = model.to_lowercase();
            model = &lower;
        }
        let table = &*self.0;
        let in_services = || {
            let service = table.services.get(service?)?;
            service.models.find(model).or_else(|| {
                let mut like = service.like.iter().filter_map(|name| table.services.get(name));
                like.find_map(|service| service.models.find(model))
            })
        };
        let found = table.anywhere.find(model).or_else(in_services)?;
        let later = || found.later.iter().rev().find(|(begins, _)| *begins <= day());
        // The clock is read only if the price may have changed.
        match if found.later.is_empty() { None } else { later() } {
            Some((_, price)) => Some(price),
            None => found.price.as_ref(),
        }
    }

    /// Returns where the prices are from, if the table says so.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.0.source.as_deref()
    }

    /// Returns the day on which the prices were collected, if the table says so.
    #[must_use]
    pub fn date(&self) -> Option<&str> {
        self.0.date.as_deref()
    }
}

impl<N: Into<String>> FromIterator<(N, Price)> for Prices {
    fn from_iter<I: IntoIterator<Item = (N, Price)>>(prices: I) -> Self {
        let prices = prices.into_iter();
        prices.fold(Self::default(), |prices, (model, price)| prices.with(model, price))
    }
}

impl<N: Into<String>, const COUNT: usize> From<[(N, Price); COUNT]> for Prices {
    fn from(prices: [(N, Price); COUNT]) -> Self {
        prices.into_iter().collect()
    }
}

impl fmt::Debug for Prices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let services = self.0.services.iter().map(|(name, of)| (name, of.models.prices.len()));
        f.debug_struct("Prices")
            .field("source", &self.0.source)
            .field("date", &self.0.date)
            .field("anywhere", &self.0.anywhere.prices.len())
            .field("services", &services.collect::<BTreeMap<_, _>>())
            .finish()
    }
}

/// The error of a table of prices that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PricesError(String);

impl Models {
    fn read(models: Vec<Rates>) -> Result<Self, String> {
        let mut read = Self::default();
        for model in models {
            let Some(name) = model.names.first().cloned() else {
                return Err("a model has no `names`; add them".to_owned());
            };
            let fault = |fault| format!("the price of `{name}` cannot be read: {fault}");
            let names: Vec<String> = model.names.iter().map(|name| name.to_lowercase()).collect();
            let price = model.dated().map_err(fault)?;
            read.prices.push(price);
            let place = read.prices.len() - 1;
            for name in names {
                match Pattern::of(&name) {
                    Some(pattern) => read.patterns.push((pattern, place)),
                    None => _ = read.names.entry(name).or_insert(place),
                }
            }
        }
        Ok(read)
    }

    fn set(&mut self, name: String, price: Dated) {
        self.prices.push(price);
        self.names.insert(name, self.prices.len() - 1);
    }

    /// Returns the price of a model by its name, by its name without a date, or by the longest pattern.
    fn find(&self, model: &str) -> Option<&Dated> {
        if self.prices.is_empty() {
            return None;
        }
        // Gemini's names may be paths.
        let last = model.rsplit_once("models/").map(|(_, last)| last);
        let names = || [Some(model), last].into_iter().flatten();
        let dated = || names().flat_map(|name| [Some(name), without_date(name)]).flatten();
        let exact = dated().find_map(|name| self.names.get(name));
        let matching = || {
            let fits = |pattern: &Pattern| names().any(|name| pattern.fits(name));
            let matching = self.patterns.iter().filter(|(pattern, _)| fits(pattern));
            // The first of several equal ones: the order of the table has a meaning.
            matching.rev().max_by_key(|(pattern, _)| pattern.part.len()).map(|(_, place)| place)
        };
        self.prices.get(*exact.or_else(matching)?)
    }
}

impl Pattern {
    fn of(name: &str) -> Option<Self> {
        let (before, after) = (name.starts_with('*'), name.ends_with('*'));
        let part = name.trim_matches('*').to_owned();
        (before || after).then_some(Self { part, before, after })
    }

    fn fits(&self, name: &str) -> bool {
        match (self.before, self.after) {
            (true, true) => name.contains(&self.part),
            (true, false) => name.ends_with(&self.part),
            (false, _) => name.starts_with(&self.part),
        }
    }
}

/// Returns a name without its date, such as `-2025-08-07`, `-20250807` or `@20250807`.
fn without_date(name: &str) -> Option<&str> {
    let split = |length: usize| name.split_at_checked(name.len().checked_sub(length)?);
    let is_date = |text: &str, form: &str| {
        let fits = |(byte, form): (u8, u8)| match form {
            b'0' => byte.is_ascii_digit(),
            form => byte == form,
        };
        text.len() == form.len() && text.bytes().zip(form.bytes()).all(fits)
    };
    ["-2000-00-00", "-20000000", "@20000000"].into_iter().find_map(|form| {
        let (before, date) = split(form.len())?;
        (is_date(date, form) && !before.is_empty()).then_some(before)
    })
}

/// Returns the present day in UTC.
fn today() -> Day {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = period::date(seconds / (24 * 60 * 60));
    u32::try_from(year * 10_000 + month * 100 + day).unwrap_or(Day::MAX)
}

/// The form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    source: Option<String>,
    date: Option<String>,
    currency: Option<String>,
    #[serde(default)]
    services: BTreeMap<String, ServiceFile>,
    #[serde(default)]
    models: Vec<Rates>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceFile {
    /// The provider's pages with the prices. They are for people.
    #[serde(default, rename = "source")]
    _source: Vec<String>,
    #[serde(default)]
    like: Vec<String>,
    #[serde(default)]
    models: Vec<Rates>,
}

/// The prices of a model, of a long call or from a day on.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Rates {
    names: Vec<String>,
    free: bool,
    input: Option<f64>,
    cached: Option<f64>,
    cache_written: Option<f64>,
    cache_written_1h: Option<f64>,
    output: Option<f64>,
    audio_input: Option<f64>,
    audio_cached: Option<f64>,
    audio_output: Option<f64>,
    /// The prices of calls with more than a number of input tokens.
    above: Vec<Self>,
    /// The number of these tokens.
    tokens: Option<u64>,
    /// The prices from later days on.
    later: Vec<Self>,
    /// The day on which these prices begin.
    since: Option<String>,
}

impl Rates {
    fn dated(self) -> Result<Dated, String> {
        let mut later = Vec::new();
        for rates in &self.later {
            let day = rates.since.as_deref().and_then(read_day);
            let day = day.ok_or("`later` needs `since`, such as \"2027-01-01\"")?;
            later.push((day, rates.price(false)?));
        }
        later.sort_by_key(|(day, _)| *day);
        let is_unpriced = self.input.is_none() && self.output.is_none() && !self.free;
        let price = if is_unpriced { None } else { Some(self.price(self.free)?) };
        Ok(Dated { price, later })
    }

    fn price(&self, free: bool) -> Result<Price, String> {
        if free {
            return match self.input.or(self.output) {
                None => Ok(Price::per_million(0.0, 0.0)),
                Some(_) => Err("it has `free` and a price; remove one of them".to_owned()),
            };
        }
        let input = needed("input", self.input)?;
        let mut price = Price {
            cached: amount("cached", self.cached)?.unwrap_or(input),
            cache_written: amount("cache_written", self.cache_written)?.unwrap_or(input),
            cache_written_1h: amount("cache_written_1h", self.cache_written_1h)?,
            audio_input: amount("audio_input", self.audio_input)?,
            audio_cached: amount("audio_cached", self.audio_cached)?,
            audio_output: amount("audio_output", self.audio_output)?,
            output: needed("output", self.output)?,
            input,
            ..Price::per_million(0.0, 0.0)
        };
        let mut steps: Vec<_> = self.above.iter().collect();
        steps.sort_by_key(|step| step.tokens);
        let mut above = None;
        for step in steps.into_iter().rev() {
            let tokens = step.tokens.ok_or("`above` needs `tokens`, such as 200000")?;
            let mut more = step.price(false)?;
            if let Some((tokens, most)) = above.take() {
                more = more.with_above(tokens, most);
            }
            above = Some((tokens, more));
        }
        if let Some((tokens, most)) = above {
            price = price.with_above(tokens, most);
        }
        Ok(price)
    }
}

fn needed(field: &str, dollars: Option<f64>) -> Result<Money, String> {
    match amount(field, dollars)? {
        None => Err(format!("it has no `{field}`; add it")),
        Some(Money { micros: 0 }) => {
            Err(format!("`{field}` is zero; write \"free\": true if the model is free"))
        }
        Some(money) => Ok(money),
    }
}

fn amount(field: &str, dollars: Option<f64>) -> Result<Option<Money>, String> {
    match dollars {
        Some(dollars) if !(0.0..1e9).contains(&dollars) => Err(format!(
            "`{field}` is {dollars}; write dollars per million tokens, from 0 to 1000000000"
        )),
        dollars => Ok(dollars.map(Money::new)),
    }
}

/// Reads a day such as `2027-01-01`.
fn read_day(text: &str) -> Option<Day> {
    let digits: String = text.split('-').collect();
    (text.len() == 10 && digits.len() == 8).then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::model::Usage;

    fn builtin() -> Prices {
        Prices::from_json(BUILTIN).unwrap()
    }

    /// Returns the price of a million input tokens on a day, in millionths.
    fn input_on(day: Day, service: &str, model: &str) -> Option<u64> {
        let prices = builtin();
        prices.of_day(Some(service), model, || day).map(|price| price.input.micros)
    }

    fn input(service: &str, model: &str) -> Option<u64> {
        input_on(20_261_128, service, model)
    }

    /// Every list of models has a source, the file has a date, and only a free model costs nothing.
    #[test]
    fn the_built_in_prices_have_a_source_and_a_date_and_no_zeros() {
        let prices = builtin();
        assert!(prices.source().unwrap().starts_with("genai-prices "));
        assert!(read_day(prices.date().unwrap()).unwrap() >= 20_261_128);
        let file: Value = serde_json::from_str(BUILTIN).unwrap();
        let services = file["services"].as_object().unwrap();
        for (name, service) in services {
            let sources = service["source"].as_array().unwrap();
            assert!(
                sources.iter().any(|url| url.as_str().unwrap().starts_with("https://")),
                "{name}"
            );
            for other in service["like"].as_array().unwrap() {
                assert!(services.contains_key(other.as_str().unwrap()), "{name}: {other}");
            }
            for model in service["models"].as_array().unwrap() {
                let is_free = model["free"] == true;
                let has = |field: &str| model[field].as_f64().is_some_and(|price| price > 0.0);
                let is_priced = has("input") && has("output");
                assert!(is_priced || is_free || model.as_object().unwrap().len() == 1, "{model}");
            }
        }
        let models = |name: &str| prices.0.services[name].models.prices.len();
        assert!(["anthropic", "openai", "gemini"].into_iter().all(|name| models(name) > 20));
    }

    #[test]
    fn a_model_is_found_by_its_name_a_dated_name_or_the_longest_pattern() {
        for (service, model, price) in [
            ("openai", "gpt-5-mini", Some(250_000)),
            ("openai", "gpt-5-mini-2025-08-07", Some(250_000)),
            ("openai", "GPT-5-mini-2031-01-01", Some(250_000)),
            // The first GPT-4o cost twice as much as the later ones.
            ("openai", "gpt-4o", Some(2_500_000)),
            ("openai", "gpt-4o-2024-05-13", Some(5_000_000)),
            // Neither is a date.
            ("openai", "gpt-5-mini-2507", None),
            ("openai", "gpt-5-mini-turbo", None),
            ("anthropic", "claude-haiku-4-5-20251001", Some(1_000_000)),
            ("anthropic", "claude-opus-9-20301001", None),
            ("gemini", "models/gemini-2.5-flash", Some(300_000)),
            ("gemini", "gemini-2.5-pro-preview-05-06", Some(1_250_000)),
            ("google", "gemini-2.5-flash", Some(300_000)),
            // A model that makes images has a price that tokens do not decide.
            ("gemini", "gemini-3.1-flash-lite-image", None),
            ("azure", "gpt-4.1-2025-04-14", Some(2_000_000)),
            ("groq", "openai/gpt-oss-120b", Some(150_000)),
            ("bedrock", "global.openai.gpt-6-sol", Some(2_000_000)),
            ("bedrock", "us.openai.gpt-6-sol", Some(2_200_000)),
            ("openrouter", "deepseek/deepseek-chat:free", Some(0)),
            ("ollama", "gpt-5-mini", None),
            ("openai", "", None),
            ("openai", "-2025-08-07", None),
        ] {
            assert_eq!(input(service, model), price, "{service} {model}");
        }
        assert!(builtin().of(None, "gpt-5-mini").is_none());
    }

    #[test]
    fn a_price_changes_on_its_day() {
        assert_eq!(input_on(20_261_231, "gemini", "gemini-3.6-flash"), Some(750_000));
        assert_eq!(input_on(20_270_101, "gemini", "gemini-3.6-flash"), Some(1_500_000));
        assert!(today() > 20_261_127);
    }

    #[test]
    fn a_long_call_and_an_hour_in_the_cache_cost_more() {
        let prices = builtin();
        let of = |service, model, usage| prices.of(Some(service), model).unwrap().of(usage);
        let million = Usage::new(1_000_000, 0);
        assert_eq!(of("openai", "gpt-5.4", Usage::new(200_000, 0)), Money::new(0.5));
        assert_eq!(of("openai", "gpt-5.4", million), Money::new(5.0));
        let written = Usage { cache_written_tokens: 1_000_000, ..million };
        assert_eq!(of("anthropic", "claude-haiku-4-5", written), Money::new(1.25));
        let hour = Usage { cache_written_1h_tokens: 1_000_000, ..written };
        assert_eq!(of("anthropic", "claude-haiku-4-5", hour), Money::new(2.0));
        let audio = Usage { audio_input_tokens: 1_000_000, ..million };
        assert_eq!(of("gemini", "gemini-2.5-flash", audio), Money::new(1.0));
    }

    /// A model of several steps, as Qwen's.
    #[test]
    fn a_price_may_have_several_steps() {
        let prices = builtin();
        let price = prices.of(Some("openrouter"), "qwen/qwen3.7-flash").unwrap();
        let of = |tokens| price.of(Usage::new(tokens, 0)).micros;
        assert_eq!([of(32_000), of(128_000), of(512_000)], [960, 12_800, 102_400]);
        let most = |tokens| price.most_of(Usage::new(tokens, 0)).micros;
        assert!(most(512_000) >= of(512_000) && most(32_000) >= of(32_000));
    }

    #[test]
    fn own_prices_come_first() {
        let prices = builtin().with("GPT-5-mini", Price::per_million(9.0, 9.0));
        let price = prices.of(Some("openai"), "gpt-5-mini-2025-08-07").unwrap();
        assert_eq!(price.input, Money::new(9.0));
        assert!(prices.of(Some("openai"), "gpt-5-nano").is_some());
    }

    #[test]
    fn a_wrong_table_is_an_error_that_names_the_model() {
        for (text, error) in [
            (
                r#"{"models": [{"names": ["a"], "input": 0, "output": 1}]}"#,
                r#"the price of `a` cannot be read: `input` is zero; write "free": true if the model is free"#,
            ),
            (
                r#"{"services": {"x": {"models": [{"names": ["a"], "input": 1}]}}}"#,
                "in the service `x`, the price of `a` cannot be read: it has no `output`; add it",
            ),
            (
                r#"{"models": [{"names": ["a"], "input": -1, "output": 1}]}"#,
                "the price of `a` cannot be read: `input` is -1; write dollars per million tokens, from 0 to 1000000000",
            ),
            (
                r#"{"currency": "EUR"}"#,
                "the currency is EUR; convert the prices to USD, which all amounts are in",
            ),
            (r#"{"models": [{"input": 1}]}"#, "a model has no `names`; add them"),
        ] {
            assert_eq!(Prices::from_json(text).unwrap_err().to_string(), error);
        }
        let typo = r#"{"models": [{"names": ["a"], "input": 1, "output": 1, "cache": 1}]}"#;
        let error = Prices::from_json(typo).unwrap_err().to_string();
        assert!(error.contains("unknown field `cache`"), "{error}");
    }
}
