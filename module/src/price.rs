//! [`Price`]: the price of a model.

use crate::budget::Money;
use crate::usage::Usage;

fn price(amount: f64) -> Money {
    if amount.is_nan() { Money { micros: u64::MAX } } else { Money::new(amount) }
}

/// The price of a model, in US dollars per million tokens.
///
/// ```
/// use toolwright_module::budget::{Money, Price};
/// use toolwright_module::model::Usage;
///
/// let price = Price::per_million(0.25, 2.0).with_cached(0.025);
/// let usage = Usage { cached_tokens: 400_000, ..Usage::new(1_000_000, 500_000) };
/// assert_eq!(price.of(usage), Money::new(0.15 + 0.01 + 1.0));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Price {
    /// Price of a million input tokens.
    pub input: Money,
    /// Price of a million output tokens.
    pub output: Money,
    /// Price of a million input tokens from the provider's cache.
    pub cached: Money,
    /// Price of a million input tokens that are written to the provider's cache. Often higher than
    /// that of other input.
    pub cache_written: Money,
    /// Price of a million input tokens that the provider's cache keeps for an hour. `None`: that of
    /// other tokens that are written to the cache.
    pub cache_written_1h: Option<Money>,
    /// Price of a million input tokens of audio. `None`: that of text.
    pub audio_input: Option<Money>,
    /// Price of a million input tokens of audio from the provider's cache. `None`: that of text.
    pub audio_cached: Option<Money>,
    /// Price of a million output tokens of audio. `None`: that of text.
    pub audio_output: Option<Money>,
    /// A number of input tokens, and the price of a call with more.
    pub(crate) above: Option<Box<(u64, Self)>>,
}

impl Price {
    /// Returns the prices of a million input tokens and a million output tokens. Tokens that are
    /// read from the cache or written to it cost the same as other input, unless
    /// [`with_cached`](Self::with_cached) and [`with_cache_written`](Self::with_cache_written) set
    /// their prices.
    ///
    /// NaN becomes the largest amount, which exceeds any budget. A price of zero would allow
    /// unlimited spending.
    #[must_use]
    pub fn per_million(input: f64, output: f64) -> Self {
        let input = price(input);
        Self {
            input,
            output: price(output),
            cached: input,
            cache_written: input,
            cache_written_1h: None,
            audio_input: None,
            audio_cached: None,
            audio_output: None,
            above: None,
        }
    }

    /// Sets the price of a million input tokens from the provider's cache.
    #[must_use]
    pub fn with_cached(mut self, cached: f64) -> Self {
        self.cached = price(cached);
        self
    }

    /// Sets the price of a million input tokens that are written to the provider's cache.
    ///
    /// ```
    /// use toolwright_module::budget::{Money, Price};
    /// use toolwright_module::model::Usage;
    ///
    /// let price = Price::per_million(3.0, 15.0).with_cache_written(3.75);
    /// let usage = Usage { cache_written_tokens: 400_000, ..Usage::new(1_000_000, 0) };
    /// assert_eq!(price.of(usage), Money::new(0.6 * 3.0 + 0.4 * 3.75));
    /// ```
    #[must_use]
    pub fn with_cache_written(mut self, cache_written: f64) -> Self {
        self.cache_written = price(cache_written);
        self
    }

    /// Sets the price of a million input tokens that the provider's cache keeps for an hour.
    #[must_use]
    pub fn with_cache_written_1h(mut self, cache_written: f64) -> Self {
        self.cache_written_1h = Some(price(cache_written));
        self
    }

    /// Sets the prices of a million input tokens and a million output tokens of audio.
    #[must_use]
    pub fn with_audio(mut self, input: f64, output: f64) -> Self {
        (self.audio_input, self.audio_output) = (Some(price(input)), Some(price(output)));
        self
    }

    /// Sets the price of all tokens of a call with more than `tokens` input tokens.
    ///
    /// ```
    /// use toolwright_module::budget::{Money, Price};
    /// use toolwright_module::model::Usage;
    ///
    /// let price = Price::per_million(1.0, 10.0).with_above(200_000, Price::per_million(2.0, 15.0));
    /// assert_eq!(price.of(Usage::new(200_000, 0)), Money::new(0.2));
    /// assert_eq!(price.of(Usage::new(300_000, 0)), Money::new(0.6));
    /// ```
    #[must_use]
    pub fn with_above(mut self, tokens: u64, price: Self) -> Self {
        self.above = Some(Box::new((tokens, price)));
        self
    }

    /// Returns the price of a call with this number of input tokens.
    fn at(&self, input_tokens: u64) -> &Self {
        match self.above.as_deref() {
            Some((tokens, price)) if input_tokens > *tokens => price.at(input_tokens),
            _ => self,
        }
    }

    /// Returns the largest cost of a model call that reads and writes at most these tokens, whatever
    /// part of its input is cached.
    pub(crate) fn most_of(&self, usage: Usage) -> Money {
        let written = self.cache_written_1h.unwrap_or_default().max(self.cache_written);
        let input = self.input.max(self.cached).max(written);
        let output = self.output.max(self.audio_output.unwrap_or_default());
        let audio = [self.audio_input, self.audio_cached].into_iter().flatten();
        let audio_input = audio.max().map(|audio| audio.max(input));
        let most = Self { input, output, audio_input, above: None, ..Self::per_million(0.0, 0.0) };
        let Usage { input_tokens, output_tokens, audio_input_tokens, .. } = usage;
        let most = most.of(Usage { audio_input_tokens, ..Usage::new(input_tokens, output_tokens) });
        match self.above.as_deref() {
            Some((tokens, price)) if input_tokens > *tokens => most.max(price.most_of(usage)),
            _ => most,
        }
    }

    /// Returns the cost of a model call, rounded up to a millionth of a dollar.
    ///
    /// Providers do not report which part of the audio was cached, so as much of it as possible counts
    /// as not cached.
    #[must_use]
    pub fn of(&self, usage: Usage) -> Money {
        let price = self.at(usage.input_tokens);
        let (input, output) = (usage.input_tokens, usage.output_tokens);
        let cached = usage.cached_tokens.min(input);
        let written = usage.cache_written_tokens.min(input - cached);
        let written_1h = usage.cache_written_1h_tokens.min(written);
        let other = input - cached - written;
        let audio = usage.audio_input_tokens.min(other);
        let audio_cached = (usage.audio_input_tokens - audio).min(cached);
        let audio_output = usage.audio_output_tokens.min(output);
        let parts = [
            (other - audio, price.input),
            (audio, price.audio_input.unwrap_or(price.input)),
            (cached - audio_cached, price.cached),
            (audio_cached, price.audio_cached.unwrap_or(price.cached)),
            (written - written_1h, price.cache_written),
            (written_1h, price.cache_written_1h.unwrap_or(price.cache_written)),
            (output - audio_output, price.output),
            (audio_output, price.audio_output.unwrap_or(price.output)),
        ];
        let parts = parts.map(|(tokens, price)| u128::from(tokens) * u128::from(price.micros));
        let all = parts.into_iter().fold(0, u128::saturating_add);
        Money { micros: u64::try_from(all.div_ceil(1_000_000)).unwrap_or(u64::MAX) }
    }
}
