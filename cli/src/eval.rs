//! The command `eval`: cases of a file, attempted by an agent and graded.

mod file;
mod folders;

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::{ArgAction, ArgMatches, Args, FromArgMatches};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::json;
use toolwright_evals::{Eval, Report, StoredRun};
use toolwright_mcp::McpClient;
use toolwright_module::budget::{Budget, Ledger, Money};
use toolwright_module::testing::{Recording, Replay};
use toolwright_module::{Context, LanguageModel};

use self::file::EvalFile;
use crate::agent::AgentArgs;
use crate::config::Config;
use crate::keys::without_keys;
use crate::model::{ModelName, NoModel, NoModelReason, ledger};
use crate::runs::Home;
use crate::show::{note, put, tell, visible};
use crate::texts::in_words_of_run;

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// The exit code if a threshold is not met, or attempts were left out.
const BELOW: u8 = 4;

/// Arguments of `eval`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  toolwright eval memory.yaml --model anthropic:claude-haiku-4-5
  toolwright eval memory.yaml --model openai:gpt-4.1 --model openai:gpt-4.1-mini --repeats 5
  TOOLWRIGHT_RECORD=1 toolwright eval memory.yaml --recordings recordings
  toolwright eval memory.yaml --recordings recordings --report report.json
  toolwright eval memory.yaml --stored ~/.local/share/toolwright/runs

Exit codes: 0 done, 1 the eval cannot be run, 2 wrong usage, 4 a threshold is not met or attempts were
left out.")]
pub(crate) struct EvalArgs {
    /// YAML or JSON file with the cases, the graders, and the instructions and tools of the agent
    file: PathBuf,

    /// Number of attempts of each case. Default: that of the file, or 1
    #[arg(long, value_name = "N", help_heading = "Eval")]
    repeats: Option<NonZeroU32>,

    /// Number of attempts at the same time. Default: that of the file, or 8
    #[arg(long, value_name = "N", help_heading = "Eval")]
    concurrency: Option<NonZeroUsize>,

    /// Maximum cost of all attempts and judges, in US dollars. The remaining attempts are left out
    #[arg(long, value_name = "DOLLARS", value_parser = amount, help_heading = "Eval")]
    budget: Option<f64>,

    /// Attempt only the cases whose name contains this text; can be repeated
    #[arg(long, value_name = "TEXT", help_heading = "Eval")]
    case: Vec<String>,

    /// Keep the attempts and their runs in this folder. An eval that was killed goes on there
    #[arg(long, value_name = "FOLDER", help_heading = "Eval")]
    folder: Option<PathBuf>,

    /// Answer model calls from the recordings in this folder, without a model. With the variable
    /// TOOLWRIGHT_RECORD=1, record them there
    #[arg(long, value_name = "FOLDER", help_heading = "Eval")]
    recordings: Option<PathBuf>,

    /// Write the report to this file: .json, .xml (JUnit) or .html; can be repeated. With several
    /// models, each has a file of its own, with its name before the ending
    #[arg(long, value_name = "FILE", value_parser = report_file, help_heading = "Eval")]
    report: Vec<PathBuf>,

    /// Compare with this earlier report, a .json file
    #[arg(long, value_name = "FILE", help_heading = "Eval")]
    baseline: Option<PathBuf>,

    /// Grade the runs of this journal, or of the PostgreSQL database of a URL. A case has the id of a run
    /// as its name
    #[arg(
        long,
        value_name = "FOLDER|URL",
        conflicts_with_all = ["repeats", "folder", "recordings"],
        help_heading = "Eval"
    )]
    stored: Option<PathBuf>,

    /// The agent whose runs in the database these are. It can be left out if there is only one
    #[arg(long = "agent", value_name = "NAME", requires = "stored", help_heading = "Eval")]
    of_agent: Option<String>,

    #[command(flatten)]
    evaluated: EvaluatedArgs,
}

fn amount(text: &str) -> Result<f64, &'static str> {
    let amount: f64 = text.parse().unwrap_or(f64::NAN);
    let is_amount = amount.is_finite() && amount >= 0.0;
    is_amount.then_some(amount).ok_or("write a number of US dollars, such as 0.5")
}

fn report_file(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("json" | "xml" | "html") => Ok(path),
        _ => Err("give the file the ending .json, .xml or .html"),
    }
}

/// Arguments of the agents that are evaluated: those of an agent, with several models.
struct EvaluatedArgs {
    models: Vec<ModelName>,
    agent: AgentArgs,
}

impl Args for EvaluatedArgs {
    fn augment_args(command: clap::Command) -> clap::Command {
        // An attempt has nobody to ask, and prints nothing.
        let hidden = ["ask", "ask_after_untrusted", "offline", "no_stream"];
        let command = AgentArgs::augment_args(command).mut_arg("model", |model| {
            model.action(ArgAction::Append).help(
                "Model, as PROVIDER:NAME, such as anthropic:claude-haiku-4-5; can be repeated to \
                 compare models. Default: that of the first key or local server that is found",
            )
        });
        let command = command.mut_arg("json", |json| {
            json.help("Print only JSON on stdout, one report per line").long_help(None)
        });
        hidden.into_iter().fold(command, |command, name| command.mut_arg(name, |it| it.hide(true)))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for EvaluatedArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Self::from_arg_matches_mut(&mut matches.clone())
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, clap::Error> {
        let models = matches.remove_many("model").into_iter().flatten().collect();
        Ok(Self { models, agent: AgentArgs::from_arg_matches_mut(matches)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// One of the evaluated models.
struct Subject {
    /// The name of the model, as the user wrote it.
    label: String,
    model: Arc<dyn LanguageModel>,
    /// The arguments, with the options of the file.
    args: Arc<AgentArgs>,
}

impl EvalArgs {
    /// Returns whether errors are printed as JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.evaluated.agent.json
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The file is not an eval, there is no model, or a file cannot be read or written. What goes wrong in
    /// an attempt is in the report.
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let mut file = EvalFile::load(&self.file)?;
        self.check_options()?;
        self.choose_cases(&mut file)?;
        let baseline = self.baseline.as_ref().map(Report::load).transpose()?;
        let (labels, reports) = match &self.stored {
            Some(place) => (Vec::new(), vec![self.grade_stored(&file, place).await?]),
            None => self.attempt(&file).await?,
        };
        for (nth, report) in reports.iter().enumerate() {
            let label = labels.get(nth).filter(|_| reports.len() > 1);
            self.write(report, label.map(String::as_str))?;
        }
        self.print(&labels, &reports, baseline.as_ref());
        let several = reports.len() > 1;
        let named = |(nth, report): (usize, &Report)| {
            let label = labels.get(nth).filter(|_| several).map(|label| format!("{label}: "));
            let label = label.unwrap_or_default();
            misses(&file, report).into_iter().map(move |miss| format!("{label}{miss}"))
        };
        let misses: Vec<String> = reports.iter().enumerate().flat_map(named).collect();
        misses.iter().for_each(|miss| note(&format!("error: {miss}")));
        Ok(if misses.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(BELOW) })
    }

    fn check_options(&self) -> Result<()> {
        let agent = &self.evaluated.agent;
        if agent.asks() {
            return Err(
                "--ask: an attempt has nobody to ask; use the grader `asks_before`, or leave \
                        the tools out"
                    .into(),
            );
        }
        if agent.model.offline {
            return Err("--offline: name recordings of the eval with --recordings".into());
        }
        Ok(())
    }

    /// Keeps the cases that the arguments choose.
    fn choose_cases(&self, file: &mut EvalFile) -> Result<()> {
        let (stored, path) = (self.stored.is_some(), self.file.display());
        if file.cases.is_empty() && !stored {
            return Err(format!("{path}: the eval has no cases; add some below `cases`").into());
        }
        let names: Vec<String> = file.cases.iter().map(|case| case.name.clone()).collect();
        file.cases.retain(|case| self.is_chosen(&case.name));
        if file.cases.is_empty() && !stored {
            let names = names.join(", ");
            return Err(format!("--case: no case has such a name; there are: {names}").into());
        }
        Ok(())
    }

    fn is_chosen(&self, name: &str) -> bool {
        self.case.is_empty() || self.case.iter().any(|text| name.contains(text.as_str()))
    }

    /// Returns the arguments of the agent, with the options of the file and of the configuration.
    fn agent_args(&self, file: &EvalFile, model: Option<&ModelName>) -> Result<AgentArgs> {
        let mut args = self.evaluated.agent.clone();
        if let Some(model) = model {
            args.model = args.model.naming(model.clone());
        }
        let named = |error| format!("{}: {error}", self.file.display());
        let args = args.or(file.options()).map_err(named)?;
        // The figures must not depend on the tools or instructions of the user's configuration.
        let Config { model, base_url, api, key_env, key_file, timeout, prices, .. } =
            args.config.load()?;
        let places = Config {
            model,
            base_url,
            api,
            key_env,
            key_file,
            timeout,
            prices,
            ..Config::default()
        };
        args.or(places).map_err(|error| format!("the configuration: {error}").into())
    }

    /// Attempts the cases with each model.
    async fn attempt(&self, file: &EvalFile) -> Result<(Vec<String>, Vec<Report>)> {
        let subjects = self.subjects(file).await?;
        let Some(first) = subjects.first() else { return Ok((Vec::new(), Vec::new())) };
        let judges = match self.replays() {
            true => HashMap::new(),
            false => judges(file, &first.args).await?,
        };
        let servers = Arc::new(first.args.servers().await?);
        let ledger = ledger(first.args.model.prices()?.as_ref());
        let cx = Context::default().with_ledger(ledger.clone());
        let several = subjects.len() > 1;
        let labels: Vec<String> = subjects.iter().map(|subject| subject.label.clone()).collect();
        if let Some(folder) = &self.folder
            && several
        {
            folders::begin(
                &labels.iter().map(|label| folders::of(folder, label)).collect::<Vec<_>>(),
            )?;
        }
        let mut reports = Vec::new();
        for subject in subjects {
            // A fault of the arguments is an error of the eval, and not of each attempt.
            subject.args.agent(Arc::clone(&subject.model), &servers).await?;
            let place = |folder: &PathBuf| match several {
                true => folders::of(folder, &subject.label),
                false => folder.clone(),
            };
            let mut eval = self.eval(file, &subject, &servers);
            eval = self.with_budget(eval, file, &ledger);
            if let Some(folder) = &self.folder {
                eval = eval.with_folder(place(folder));
            }
            if let Some(folder) = &self.recordings {
                eval = eval.with_recordings(place(folder));
            }
            let judge = |name: Option<&str>| match name.and_then(|name| judges.get(name)) {
                Some(judge) => Some(Arc::clone(judge)),
                None => Some(Arc::clone(&subject.model)),
            };
            let eval = file.graded(eval, judge)?;
            let (eval, bar) = self.with_bar(eval, &subject.label);
            let report = eval.run(&cx).await;
            if let Some(bar) = bar {
                bar.finish_and_clear();
            }
            reports.push(report?);
        }
        if let Some(servers) = Arc::into_inner(servers) {
            futures_util::future::join_all(servers.into_iter().map(McpClient::close)).await;
        }
        Ok((labels, reports))
    }

    /// Limits an eval to what is left of the money.
    fn with_budget(&self, eval: Eval, file: &EvalFile, ledger: &Ledger) -> Eval {
        let Some(dollars) = self.budget.or(file.budget()) else { return eval };
        let left = Money::new(dollars).micros.saturating_sub(ledger.spent().money.micros);
        let money = Some(Money { micros: left });
        eval.with_budget(Budget { money, ..Budget::default() })
    }

    fn eval(&self, file: &EvalFile, subject: &Subject, servers: &Arc<Vec<McpClient>>) -> Eval {
        let Subject { label, model, args } = subject;
        let (args, model, servers) = (Arc::clone(args), Arc::clone(model), Arc::clone(servers));
        // Toolsets such as a memory have a state, which attempts must not share.
        let eval = Eval::agents(format!("{} ({label})", file.name()), move || {
            let (args, model, servers) =
                (Arc::clone(&args), Arc::clone(&model), Arc::clone(&servers));
            async move { args.agent(model, &servers).await }
        });
        let mut eval = eval.with_cases(file.cases.iter().cloned());
        if let Some(repeats) = self.repeats.map(NonZeroU32::get).or(file.repeats()) {
            eval = eval.with_repeats(repeats);
        }
        if let Some(attempts) = self.concurrency.map(NonZeroUsize::get).or(file.concurrency()) {
            eval = eval.with_concurrency(attempts);
        }
        eval
    }

    /// Adds a progress bar at a terminal.
    fn with_bar(&self, eval: Eval, label: &str) -> (Eval, Option<ProgressBar>) {
        if self.is_json() || !io::stderr().is_terminal() {
            return (eval, None);
        }
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg} ({elapsed})");
        let bar = bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(visible(label));
        bar.enable_steady_tick(Duration::from_millis(200));
        let (shown, failed) = (bar.clone(), AtomicUsize::new(0));
        let eval = eval.with_progress(move |ended, all, graded| {
            if !graded.passed() {
                failed.fetch_add(1, Ordering::Relaxed);
            }
            shown.set_length(all as u64);
            shown.set_position(ended as u64);
            shown.set_message(format!("{} failed", failed.load(Ordering::Relaxed)));
        });
        (eval, Some(bar))
    }

    /// Returns whether model calls are answered from recordings.
    fn replays(&self) -> bool {
        let records = std::env::var_os("TOOLWRIGHT_RECORD").is_some_and(|value| value == "1");
        self.recordings.is_some() && !records
    }

    /// Finds the models.
    async fn subjects(&self, file: &EvalFile) -> Result<Vec<Subject>> {
        let models = &self.evaluated.models;
        let names = models.iter().map(Some).chain(models.is_empty().then_some(None));
        let mut subjects: Vec<Subject> = Vec::new();
        for name in names {
            let args = Arc::new(self.agent_args(file, name)?);
            let model = match (&self.recordings, self.replays()) {
                (Some(folder), true) => {
                    let label = name.map(ToString::to_string).unwrap_or_default();
                    let place =
                        if models.len() > 1 { folders::of(folder, &label) } else { folder.clone() };
                    replayed(&place)?
                }
                _ => {
                    let chosen = args.model.find().await?.ok_or_else(|| no_model(&args))?;
                    note(&chosen.line);
                    chosen.model
                }
            };
            let label = name.map_or_else(|| model.name().to_owned(), ToString::to_string);
            if subjects.iter().any(|other| other.label == label) {
                return Err(format!("--model: {label} is named twice").into());
            }
            let keeps =
                self.folder.is_some() || self.recordings.is_some() || !self.report.is_empty();
            let same = subjects.iter().find(|other| folders::are_same(&other.label, &label));
            if let Some(other) = same.filter(|_| keeps) {
                return Err(format!(
                    "--model: the files of {label} and {} would have the same names; evaluate them one at a time",
                    other.label
                )
                .into());
            }
            subjects.push(Subject { label, model, args });
        }
        Ok(subjects)
    }

    /// Grades the runs of a journal or a database.
    async fn grade_stored(&self, file: &EvalFile, place: &Path) -> Result<Report> {
        let home = Home::open(place.to_owned(), self.of_agent.as_deref())
            .await
            .map_err(|error| error.to_string().replace("--journal", "--stored"))?;
        let mut runs = Vec::new();
        for run in home.runs().await?.into_iter().filter(|run| self.is_chosen(&run.id)) {
            let (entries, tools) = (home.entries(&run.id).await?, home.tools(&run.id).await?);
            runs.push(StoredRun::new(&run.id, entries, tools));
        }
        if runs.is_empty() {
            return Err("--stored: there are no such runs".into());
        }
        let args = self.agent_args(file, self.evaluated.models.first())?;
        let mut judges = judges(file, &args).await?;
        if file.judges().any(|judge| judge.is_none()) {
            let chosen = args.model.find().await?.ok_or_else(|| no_model(&args))?;
            note(&chosen.line);
            judges.insert(String::new(), chosen.model);
        }
        let ledger = ledger(args.model.prices()?.as_ref());
        let cx = Context::default().with_ledger(ledger.clone());
        let eval = Eval::agents(file.name(), async || {
            Err(toolwright_module::Error::other("a stored run is not attempted"))
        });
        let eval = self.with_budget(eval, file, &ledger);
        let eval = eval.with_cases(file.cases.iter().cloned());
        let judge = |name: Option<&str>| judges.get(name.unwrap_or_default()).map(Arc::clone);
        Ok(file.graded(eval, judge)?.grade_stored(runs, &cx).await?)
    }

    fn write(&self, report: &Report, label: Option<&str>) -> Result<()> {
        for path in &self.report {
            let path = match label {
                Some(label) => folders::file_of(path, label),
                None => path.clone(),
            };
            report.save(path)?;
        }
        Ok(())
    }

    fn print(&self, labels: &[String], reports: &[Report], baseline: Option<&Report>) {
        if self.is_json() {
            return reports.iter().for_each(|report| tell(&json!({ "report": report })));
        }
        let mut text = String::new();
        for report in reports {
            let _ = writeln!(text, "{report}");
        }
        if reports.len() > 1 {
            let _ = writeln!(text, "{}", table(labels, reports));
        }
        let pairs = labels.iter().zip(reports);
        if let Some((first, before)) = pairs.clone().next() {
            for (label, report) in pairs.skip(1) {
                let _ = writeln!(text, "{label} beside {first}: {}", report.compare(before));
            }
        }
        for (report, (baseline, path)) in
            reports.iter().flat_map(|report| Some((report, baseline.zip(self.baseline.as_ref())?)))
        {
            let compared = report.compare(baseline);
            let _ = writeln!(text, "{} beside {}: {compared}", report.name, path.display());
        }
        put(&(without_keys(&in_words_of_run(text.trim_end())) + "\n"));
    }
}

/// Returns the models of judges that have a name.
async fn judges(
    file: &EvalFile,
    args: &AgentArgs,
) -> Result<HashMap<String, Arc<dyn LanguageModel>>> {
    let mut judges = HashMap::new();
    for name in file.judges().flatten() {
        if !judges.contains_key(name) {
            let model = args.model.clone().beside(name.parse()?);
            let chosen = model.find().await?.ok_or_else(|| NoModel {
                recorded: String::new(),
                reason: NoModelReason::Unknown(name.to_owned()),
            })?;
            note(&format!("{} for the judge", chosen.line));
            judges.insert(name.to_owned(), chosen.model);
        }
    }
    Ok(judges)
}

fn no_model(args: &AgentArgs) -> Box<dyn Error> {
    match args.model.reason() {
        reason @ NoModelReason::Unknown(_) => Box::new(NoModel { recorded: String::new(), reason }),
        _ => "no model was found; set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start \
              Ollama, llama-server or LM Studio on this machine, or pass --base-url URL --model NAME"
            .into(),
    }
}

/// Returns a model that stands for the recorded one. The recordings give the replies.
fn replayed(folder: &Path) -> Result<Arc<dyn LanguageModel>> {
    let failed = |reason: &dyn std::fmt::Display| {
        format!(
            "--recordings {}: {reason}; to record the cases, set TOOLWRIGHT_RECORD=1 and run the eval \
             with a model",
            folder.display()
        )
    };
    let entries = std::fs::read_dir(folder).map_err(|error| failed(&error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    let first = files.first().ok_or_else(|| failed(&"there are no recordings"))?;
    let recording = Recording::load(first).map_err(|error| failed(&error))?;
    Ok(Arc::new(Replay::new(recording)))
}

/// Returns what a report misses.
fn misses(file: &EvalFile, report: &Report) -> Vec<String> {
    let mut misses = Vec::new();
    // A share such as 0.7 is not exact in binary.
    let is_below = |value: f64, least: f64| value + 1e-9 < least;
    if let Some(least) = file.at_least() {
        let rate = report.pass_rate().map_or(0.0, |rate| rate.mean);
        if is_below(rate, least) {
            misses.push(format!("fewer than {:.1} % of the attempts pass", least * 100.0));
        }
    }
    for (grader, least) in file.scores_at_least() {
        let mean = report.score(grader).map(|score| score.mean);
        if mean.is_none_or(|mean| is_below(mean, least)) {
            misses.push(format!("the mean score of `{grader}` is lower than {least}"));
        }
    }
    if !report.left_out.is_empty() {
        misses.push(format!("{} attempts were left out", report.left_out.len()));
    }
    misses
}

/// Returns the figures of several models side by side.
fn table(labels: &[String], reports: &[Report]) -> String {
    let mut rows = vec![["model", "pass", "cost in USD", "seconds", "tokens"].map(str::to_owned)];
    for (label, report) in labels.iter().zip(reports) {
        let outcomes = &report.outcomes;
        let dollars: f64 = outcomes.iter().filter_map(|one| one.dollars).sum();
        let cost = match outcomes.iter().all(|one| one.cost_is_known) {
            true => format!("{dollars:.4}"),
            false if dollars > 0.0 => format!("at least {dollars:.4}"),
            false => "unknown".to_owned(),
        };
        let seconds: f64 = outcomes.iter().map(|one| one.seconds).sum();
        let tokens: u64 = outcomes.iter().map(|one| one.tokens).sum();
        let rate = report.pass_rate().map_or("nothing attempted".to_owned(), |it| it.to_string());
        rows.push([label.clone(), rate, cost, format!("{seconds:.1}"), tokens.to_string()]);
    }
    let mut widths = [0; 5];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for [model, pass, cost, seconds, tokens] in &rows {
        let [a, b, c, d, e] = widths;
        let _ = writeln!(text, "{model:a$}  {pass:b$}  {cost:>c$}  {seconds:>d$}  {tokens:>e$}");
    }
    text
}
