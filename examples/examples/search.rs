//! One signature, three modules for it, and one caller that does not depend on the module.
//!
//! The first module searches an index. The second is a language model, which invents the documents.
//! The third lets a model expand the query, and then searches the index.
//!
//! With `--base-url URL --model NAME` a real model answers. Otherwise two test models answer, each with
//! one text.

use std::error::Error;
use std::sync::Arc;

use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_cli::{ServerArgs, say};
use toolwright_module::testing::Scripted;
use toolwright_module::{
    AnyModule, ChainOfThought, Context, Effect, LanguageModel, Module, Predict, Reply, Result,
    Signature,
};

/// Search legal documents by query.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SearchDocuments {
    /// Words to look for.
    pub(crate) query: String,
    /// Conditions for the documents.
    pub(crate) filters: Option<SearchFilters>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SearchFilters {
    /// The earliest year of publication.
    pub(crate) from_year: Option<u16>,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct SearchResults {
    /// The documents found, best first.
    #[schemars(length(max = 3))]
    pub(crate) documents: Vec<Document>,
    /// Number of all documents found.
    pub(crate) total_count: u32,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) year: u16,
}

impl Signature for SearchDocuments {
    type Output = SearchResults;
}

/// Expand a search query with synonyms.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExpandQuery {
    query: String,
}

#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ExpandedQuery {
    /// The words of the query and a few more.
    expanded_query: String,
}

impl Signature for ExpandQuery {
    type Output = ExpandedQuery;
}

/// The documents, in place of a search server.
pub(crate) struct Index(pub(crate) Vec<Document>);

impl Index {
    fn search(&self, query: &str, filters: Option<&SearchFilters>) -> SearchResults {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let from_year = filters.and_then(|filters| filters.from_year).unwrap_or(0);
        let fits = |document: &&Document| {
            let title = document.title.to_lowercase();
            document.year >= from_year && words.iter().any(|word| title.contains(word))
        };
        let documents: Vec<_> = self.0.iter().filter(fits).cloned().collect();
        let total_count = documents.len().try_into().unwrap_or(u32::MAX);
        SearchResults { documents, total_count }
    }
}

/// Module that is code.
pub(crate) struct ApiSearch {
    pub(crate) index: Arc<Index>,
}

impl Module for ApiSearch {
    type Signature = SearchDocuments;

    async fn call(&self, input: SearchDocuments, _cx: &Context) -> Result<SearchResults> {
        Ok(self.index.search(&input.query, input.filters.as_ref()))
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// Module that is a language model.
pub(crate) struct LlmSearch {
    pub(crate) predictor: ChainOfThought<SearchDocuments>,
}

impl Module for LlmSearch {
    type Signature = SearchDocuments;

    async fn call(&self, input: SearchDocuments, cx: &Context) -> Result<SearchResults> {
        self.predictor.call(input, cx).await
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// Module that is both: a model expands the query, and code searches the index.
pub(crate) struct SmartSearch {
    pub(crate) index: Arc<Index>,
    pub(crate) expander: Predict<ExpandQuery>,
}

impl Module for SmartSearch {
    type Signature = SearchDocuments;

    async fn call(&self, input: SearchDocuments, cx: &Context) -> Result<SearchResults> {
        let query = input.query.clone();
        // Pass the context on, so that the model's calls count against the run's budget.
        let expanded = self.expander.call(ExpandQuery { query }, cx).await?;
        let query = format!("{} {}", input.query, expanded.expanded_query);
        Ok(self.index.search(&query, input.filters.as_ref()))
    }

    fn effect(&self) -> Effect {
        Effect::Read
    }
}

/// The caller, which knows only the signature.
async fn search(module: &AnyModule<SearchDocuments>, query: &str) -> Result<SearchResults> {
    module
        .call(SearchDocuments { query: query.to_owned(), filters: None }, &Context::default())
        .await
}

/// One signature with three modules.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

/// A document that is not in the index, so that the caller can see who found it.
const INVENTED: &str = r#"{"reasoning": "Taxes are old.", "output": {
    "documents": [{"title": "Taxes in antiquity", "year": 1998}], "total_count": 1}}"#;

/// A query that finds a document more than the query of the caller.
const EXPANDED: &str = r#"{"expanded_query": "tax law"}"#;

fn scripted(answer: &'static str) -> Arc<dyn LanguageModel> {
    Arc::new(Scripted::new(move |_| Ok(Reply::text(answer))))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let (searcher, expander) = match args.server.given()? {
        Some(model) => (Arc::clone(&model), model),
        None => (scripted(INVENTED), scripted(EXPANDED)),
    };
    let title = |title: &str, year| Document { title: title.to_owned(), year };
    let index = Arc::new(Index(vec![
        title("Tax law of 2025", 2025),
        title("Tax treaties, a survey", 2019),
        title("The law of the sea", 1994),
    ]));
    let modules = [
        ("code", AnyModule::new(ApiSearch { index: Arc::clone(&index) })),
        ("model", AnyModule::new(LlmSearch { predictor: ChainOfThought::new(searcher)? })),
        ("both", AnyModule::new(SmartSearch { index, expander: Predict::new(expander)? })),
    ];
    for (kind, module) in &modules {
        let found = search(module, "tax").await?;
        say(&format!("{kind}: {} found", found.total_count));
        for document in found.documents {
            say(&format!("  {} ({})", document.title, document.year));
        }
    }
    Ok(())
}
