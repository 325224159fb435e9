//! Agents with scripted models, and the runs that they leave in a journal.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;
use toolwright_cli::runs::metadata;
use toolwright_journal::Journal;
use toolwright_module::approval::{Approval, Decision};
use toolwright_module::budget::{Budget, Ledger, Price};
use toolwright_module::error::Stage;
use toolwright_module::message::{Opaque, Reasoning, ReplyPart};
use toolwright_module::model::Usage;
use toolwright_module::testing::Scripted;
use toolwright_module::{
    Context, Effect, Error, LanguageModel, Message, Reply, Request, Result, Signature, Tool,
    ToolCall, from_fn,
};
use toolwright_orchestrator::{Agent, ApprovalPolicy, Edited, Limits, ReAct};

/// Makes runs. The pauses of models and tools are this long, times one to ten.
pub(crate) struct World {
    pub(crate) journal: Journal,
    pub(crate) pause: Duration,
}

/// Find an order.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct FindOrder {
    /// Number of the order.
    order: u32,
}

/// Look up how many pieces are in stock.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct CheckStock {
    /// Name of the part.
    part: String,
}

/// Pay money back.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct PayBack {
    /// Number of the order.
    order: u32,
    /// Amount in euros.
    amount: f64,
    /// Reason, for the customer.
    reason: String,
}

/// Write to a customer.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct SendLetter {
    /// Name of the customer.
    to: String,
    /// The whole letter.
    text: String,
}

/// Check one invoice.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct CheckInvoice {
    /// Number of the invoice.
    number: u32,
}

/// Settle a complaint.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
struct Settle {
    /// The complaint.
    complaint: String,
}

/// What was done about a complaint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Settled {
    /// Amount that was paid back.
    paid: f64,
    /// What the customer was told.
    told: String,
}

macro_rules! signatures {
    ($($type:ty => $output:ty),*) => { $(impl Signature for $type { type Output = $output; })* };
}
signatures!(FindOrder => Value, CheckStock => Value, PayBack => String, SendLetter => String,
    CheckInvoice => String, Settle => Settled);

fn tool<S, F>(effect: Effect, work: impl Fn(S) -> F + Send + Sync + 'static) -> Tool
where
    S: Signature + DeserializeOwned,
    F: Future<Output = Result<S::Output>> + Send + 'static,
{
    Tool::new(from_fn(work).with_effect(effect)).unwrap()
}

pub(crate) fn call(id: &str, name: &str, arguments: impl ToString) -> ToolCall {
    ToolCall::new(id, name, arguments.to_string())
}

/// Counts tokens as a provider with a cache does: about four characters each.
fn with_usage(reply: Reply, request: &Request, before: &Mutex<u64>) -> Reply {
    let length = |json: serde_json::Result<String>| json.map_or(0, |json| json.len() as u64);
    let read = 800 + length(serde_json::to_string(&request.messages)) / 4;
    let written = length(serde_json::to_string(&reply.parts)) / 4;
    let mut before = before.lock().unwrap();
    // A shorter prompt is another one, of which only the start is cached.
    let cached = if *before > read { 768 } else { *before / 128 * 128 };
    *before = read;
    reply
        .with_usage(Usage { cached_tokens: cached, ..Usage::new(read, written) })
        .with_model("acme-large-2")
}

impl World {
    pub(crate) fn new(folder: &Path, pause: Duration) -> Self {
        Self { journal: Journal::open(folder).unwrap(), pause }
    }

    /// Returns a model with these replies, the last of them again and again.
    fn model(&self, replies: Vec<Reply>) -> impl LanguageModel + use<> {
        let (next, before, pause) = (AtomicUsize::new(0), Mutex::new(0), self.pause);
        Scripted::new(move |request: &Request| {
            let nth = next.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(pause * (3 + nth as u32 * 5 % 7));
            let reply = replies[nth.min(replies.len() - 1)].clone();
            Ok(with_usage(reply, request, &before))
        })
    }

    fn cx(&self) -> Context {
        let prices = [("scripted", Price::per_million(2.5, 10.0).with_cached(0.25))];
        Context::default().with_ledger(Ledger::new(Budget::default()).with_prices(prices))
    }

    fn find_order(&self) -> Tool {
        let pause = self.pause;
        tool(Effect::Read, move |find: FindOrder| async move {
            sleep(pause * 2).await;
            match find.order {
                1042 => Ok(json!({
                    "order": 1042, "customer": "Ada Obi", "paid": 184.5,
                    "parts": ["hinge 40 mm", "door handle, brass", "wood glue"], "shipped": "2026-11-02",
                })),
                order => Err(Error::retry(format!("there is no order {order}"))),
            }
        })
    }

    fn check_stock(&self) -> Tool {
        let pause = self.pause;
        tool(Effect::Read, move |check: CheckStock| async move {
            sleep(pause * (check.part.len() as u32 % 9 + 1)).await;
            Ok(json!({"part": check.part, "pieces": check.part.len() * 3 % 17}))
        })
    }

    fn pay_back(&self) -> Tool {
        let pause = self.pause;
        tool(Effect::Irreversible, move |pay: PayBack| async move {
            sleep(pause * 3).await;
            match pay.amount {
                amount if amount > 100.0 => Err(Error::retry(format!(
                    "the bank declined {amount:.2} EUR: the refund account holds 61.20 EUR"
                ))),
                amount => Ok(format!("{amount:.2} EUR paid back for order {}", pay.order)),
            }
        })
    }

    fn send_letter(&self) -> Tool {
        let pause = self.pause;
        tool(Effect::Write, move |letter: SendLetter| async move {
            sleep(pause).await;
            Ok(format!("sent to {}", letter.to))
        })
    }

    /// An agent with two tools that asks for a wrong order first.
    fn research(&self) -> Tool {
        let replies = vec![
            Reply::calls([call("r1", "find_order", json!({"order": 1024}))]),
            Reply::calls([
                call("r2", "find_order", json!({"order": 1042})),
                call("r3", "check_stock", json!({"part": "hinge 40 mm"})),
            ]),
            Reply::text(
                "Order 1042 of Ada Obi was paid with 184.50 EUR and shipped on 2 November. Hinges are in stock.",
            ),
        ];
        let agent =
            Agent::new(self.model(replies), [self.find_order(), self.check_stock()]).unwrap();
        let tool = Tool::new(agent).unwrap().with_effect(Effect::Read);
        tool.named("research").unwrap().described("Find out facts about orders.")
    }

    /// A run of three steps, with repaired arguments.
    pub(crate) async fn short(&self) {
        let replies = vec![
            Reply::calls([call("c1", "find_order", "{'order': '1042',}")]),
            Reply::calls([
                call("c2", "check_stock", json!({"part": "hinge 40 mm"})),
                call("c3", "check_stock", json!({"part": "door handle, brass"})),
                call("c4", "check_stock", json!({"part": "wood glue"})),
            ]),
            Reply::text(
                "Hinges and glue are in stock. The brass handle is late: 3 pieces are left, and 4 are reserved.",
            ),
        ];
        let agent = Agent::new(self.model(replies), [self.find_order(), self.check_stock()]);
        let agent = agent.unwrap().with_instructions("You help the warehouse of a hardware shop.");
        let task = "Which parts of order 1042 are late?";
        let cx = self.cx().with_run("short", metadata(task));
        self.journal.drive(&agent, "short", task, &cx).await.unwrap();
    }

    /// A typed run with an agent below that gets stuck: the same call fails again and again.
    pub(crate) async fn failed(&self) {
        let pay = |id: &str| {
            call(
                id,
                "pay_back",
                json!({"order": 1042, "amount": 184.5, "reason": "The hinges broke after two days."}),
            )
        };
        let thought = ReplyPart::text("I look at the order first, and at what can be replaced.");
        let research = call(
            "p1",
            "research",
            json!({"task": "What is order 1042, and can its hinges be replaced?"}),
        );
        let replies = vec![
            Reply::new([thought, ReplyPart::Call(research)]),
            Reply::calls([call("p2", "check_stock", "{\"part\": \"hinge 40 mm\"")]),
            Reply::calls([call("p3", "send_mail", json!({"to": "Ada Obi"}))]),
            Reply::new([
                ReplyPart::text("The customer gets her money back."),
                ReplyPart::Call(pay("p4")),
            ]),
            Reply::calls([pay("p5")]),
            Reply::calls([pay("p6")]),
            Reply::calls([pay("p7")]),
        ];
        let tools = [
            self.research(),
            self.find_order(),
            self.check_stock(),
            self.pay_back(),
            self.send_letter(),
        ];
        let agent = Agent::new(self.model(replies), tools)
            .unwrap()
            .with_instructions("You settle complaints. Pay back at most what was paid.");
        let react = ReAct::<Settle>::new(agent).unwrap();
        let complaint = "Ada Obi writes: both hinges of order 1042 broke after two days. She wants her money back.";
        let cx = self.cx().with_run("failed", metadata("Settle the complaint of Ada Obi"));
        let settle = Settle { complaint: complaint.to_owned() };
        let task = react.task(&settle).unwrap();
        self.journal.drive(react.agent(), "failed", task, &cx).await.unwrap_err();
    }

    /// A typed run. Its answer does not fit at first, and is repaired then.
    pub(crate) async fn settled(&self) {
        let replies = vec![
            Reply::calls([call("c1", "find_order", json!({"order": 1042}))]),
            Reply::calls([call("c2", "finish", json!({"paid": "much", "told": "Sorry."}))]),
            Reply::calls([call("c3", "finish", "{'paid': '24.0', 'told': 'Sorry.'}")]),
        ];
        let agent = Agent::new(self.model(replies), [self.find_order()]).unwrap();
        let react = ReAct::<Settle>::new(agent).unwrap();
        let settle = Settle { complaint: "A hinge broke.".to_owned() };
        let cx = self.cx();
        let task = react.task(&settle).unwrap();
        let settled = self.journal.drive(react.agent(), "settled", task, &cx).await.unwrap();
        assert_eq!(settled.answer, Settled { paid: 24.0, told: "Sorry.".to_owned() });
    }

    /// A run whose provider is down at its third question.
    pub(crate) async fn down(&self) {
        let (next, before, pause) = (AtomicUsize::new(0), Mutex::new(0), self.pause);
        let model = Scripted::new(move |request: &Request| {
            std::thread::sleep(pause * 4);
            let reply = match next.fetch_add(1, Ordering::SeqCst) {
                0 => Reply::calls([call("c1", "find_order", json!({"order": 1042}))]),
                1 => Reply::calls([call("c2", "check_stock", json!({"part": "wood glue"}))]),
                _ => {
                    let text = "the provider answered with status 529: overloaded, try again later";
                    return Err(Error::stop(text).at(Stage::Provider));
                }
            };
            Ok(with_usage(reply, request, &before))
        });
        let agent = Agent::new(model, [self.find_order(), self.check_stock()]).unwrap();
        let task = "Is the glue of order 1042 in stock?";
        let cx = self.cx().with_run("down", metadata(task));
        self.journal.drive(&agent, "down", task, &cx).await.unwrap_err();
    }

    /// Returns an agent that writes a letter and pays money back, both with a person's approval.
    pub(crate) fn careful(&self) -> Agent {
        self.careful_with(24.0)
    }

    fn careful_with(&self, amount: f64) -> Agent {
        let letter = "Dear Ada Obi,\n\nwe are sorry that the hinges broke. You get 24.00 EUR back, and two new hinges are on their way.\n\nYour hardware shop";
        let below = vec![
            Reply::calls([call("w1", "send_letter", json!({"to": "Ada Obi", "text": letter}))]),
            Reply::text("The letter is sent."),
        ];
        let below = Agent::new(self.model(below), [self.send_letter()]).unwrap();
        let writer = Tool::new(below).unwrap().with_effect(Effect::Read).named("writer").unwrap();
        let replies = vec![
            Reply::calls([call("c1", "find_order", json!({"order": 1042}))]),
            Reply::calls([
                call(
                    "c2",
                    "pay_back",
                    json!({"order": 1042, "amount": amount, "reason": "Two hinges broke."}),
                ),
                call(
                    "c3",
                    "pay_back",
                    json!({"order": 1042, "amount": 10.0, "reason": "Postage."}),
                ),
            ]),
            Reply::calls([call("c4", "writer", json!({"task": "Tell Ada Obi about it."}))]),
            Reply::text("24.00 EUR are paid back, and the letter is sent."),
        ];
        let tools = [self.find_order(), self.pay_back(), writer];
        let policy = ApprovalPolicy::from_effect(Effect::Irreversible);
        Agent::new(self.model(replies), tools).unwrap().with_approval(policy).unwrap()
    }

    pub(crate) const CAREFUL: &str = "Pay back 24.00 EUR for order 1042, and tell the customer.";

    /// A run with two calls that wait for a person.
    pub(crate) async fn waiting(&self, id: &str) -> Vec<Approval> {
        self.waiting_for(id, 24.0).await
    }

    /// The same run with another amount.
    pub(crate) async fn waiting_for(&self, id: &str, amount: f64) -> Vec<Approval> {
        let cx = self.cx().with_run(id, metadata(Self::CAREFUL));
        let agent = self.careful_with(amount);
        self.journal.drive(&agent, id, Self::CAREFUL, &cx).await.unwrap_err();
        self.journal.run(id).unwrap().waiting
    }

    /// The same run with decisions: one call is approved with other arguments, one is denied.
    pub(crate) async fn decided(&self) {
        let asked = self.waiting("decided").await;
        sleep(self.pause).await;
        self.go_on("decided", &asked).await;
    }

    /// Decides on the calls that wait, and drives the run to its end.
    pub(crate) async fn go_on(&self, id: &str, asked: &[Approval]) {
        for asked in asked {
            let decision = if asked.call.id == "c2" {
                let pay = json!({"order": 1042, "amount": 20.0, "reason": "Two hinges broke."});
                Decision::Edit { arguments: pay.to_string() }
            } else {
                Decision::deny("Postage is not paid back.")
            };
            self.journal.decide_as("Kate Ono", id, asked, decision).unwrap();
        }
        // The model of a new process starts at its first reply, so the script goes on here.
        let rest = vec![
            Reply::calls([call("c4", "writer", json!({"task": "Tell Ada Obi about it."}))]),
            Reply::text("20.00 EUR are paid back. Postage is not. The letter is sent."),
        ];
        let tools = self.careful().tools().to_vec();
        let policy = ApprovalPolicy::from_effect(Effect::Irreversible);
        let agent = Agent::new(self.model(rest), tools).unwrap();
        let agent = agent.with_approval(policy).unwrap();
        self.journal.drive(&agent, id, Self::CAREFUL, &self.cx()).await.unwrap();
    }

    /// A run with these replies.
    pub(crate) async fn scripted(&self, id: &str, replies: Vec<Reply>) {
        let tools = [self.find_order(), self.check_stock()];
        let agent = Agent::new(self.model(replies), tools).unwrap();
        self.journal.drive(&agent, id, "Do it.", &self.cx()).await.unwrap();
    }

    /// A run of many steps. Some calls fail, some arguments are repaired, some steps have an agent.
    /// The editor leaves out the start of the conversation when it is long.
    pub(crate) async fn long(&self, id: &str, steps: u32) {
        let (next, before) = (AtomicUsize::new(0), Mutex::new(0));
        let pause = self.pause;
        let model = Scripted::new(move |request: &Request| {
            let nth = next.fetch_add(1, Ordering::SeqCst) as u32;
            std::thread::sleep(pause * (nth % 4));
            let invoice = |id: u32, number: u32| {
                call(&format!("i{id}"), "check_invoice", json!({"number": number}))
            };
            let reply = match nth {
                nth if nth + 1 >= steps => Reply::text(format!(
                    "All invoices are checked. {} of them have no payment.",
                    steps / 97
                )),
                nth if nth % 250 == 249 => Reply::calls([call(
                    &format!("a{nth}"),
                    "research",
                    json!({"task": format!("Why does invoice {nth} belong to order 1042?")}),
                )]),
                nth if nth % 41 == 40 => Reply::calls([call(
                    &format!("i{nth}"),
                    "check_invoice",
                    format!("{{number: \"{nth}\"}}"),
                )]),
                nth if nth % 10 == 9 => Reply::calls([
                    invoice(nth * 3, nth),
                    invoice(nth * 3 + 1, nth + 1),
                    invoice(nth * 3 + 2, nth + 2),
                ]),
                nth => Reply::calls([invoice(nth * 3, nth)]),
            };
            Ok(with_usage(reply, request, &before))
        });
        let check = tool(Effect::Read, move |check: CheckInvoice| async move {
            sleep(pause * (check.number % 7)).await;
            match check.number % 97 {
                96 => Err(Error::retry(format!("invoice {} has no payment", check.number))),
                _ => Ok(format!(
                    "Invoice {} over {}.50 EUR is paid. Its lines add up, and its tax is right.",
                    check.number,
                    check.number % 400 + 20
                )),
            }
        });
        let limits = Limits { max_iterations: steps + 10, ..Limits::default() };
        let agent = Agent::new(model, [check, self.research()]).unwrap();
        let agent = agent.with_limits(limits).with_editor(|run| {
            let sent = run.sent();
            let start = sent.len().checked_sub(9)?;
            let start = start
                + sent[start..]
                    .iter()
                    .position(|message| matches!(**message, Message::Assistant { .. }))?;
            (sent.len() > 260).then(|| {
                Edited::new(start, [Message::user("[The invoices before these are checked.]")])
            })
        });
        let task = "Check all invoices of the year, one after the other, and list those without a payment.";
        let cx = self.cx().with_run(id, metadata(task));
        self.journal.drive(&agent, id, task, &cx).await.unwrap();
    }

    /// A run in which every text of the model and of the tools is hostile.
    pub(crate) async fn hostile(&self, id: &str, text: &str) {
        let said = text.to_owned();
        let tool = tool(Effect::Irreversible, move |letter: SendLetter| {
            let said = said.clone();
            async move {
                match letter.to.len() % 2 {
                    0 => Ok(said),
                    _ => Err(Error::retry(said)),
                }
            }
        });
        let letter = |id: &str, to: &str| call(id, "send_letter", json!({"to": to, "text": text}));
        let opaque = Opaque::new("evil", json!({"type": text, text: text}));
        let first = Reply::new([
            ReplyPart::text(text),
            ReplyPart::Reasoning(Reasoning::new(text, text, Value::Null)),
            ReplyPart::Other(opaque),
            ReplyPart::Call(letter(text, "ab")),
            ReplyPart::Call(letter("c2", "abc")),
            ReplyPart::Call(letter("c3", "denied")),
            ReplyPart::Call(call("c4", text, text)),
        ]);
        let first = first.with_model(text);
        let next = AtomicUsize::new(0);
        let said = text.to_owned();
        let model = Scripted::new(move |_: &Request| {
            Ok(match next.fetch_add(1, Ordering::SeqCst) {
                0 => first.clone(),
                _ => Reply::text(said.clone()),
            })
        });
        let policy = ApprovalPolicy::from_effect(Effect::Irreversible);
        let agent = Agent::new(model, [tool]).unwrap().with_approval(policy).unwrap();
        let agent = agent.with_instructions(text);
        let reason = text.to_owned();
        let cx = self.cx().with_run(id, [(text, text)]).with_approver(move |asked: Approval| {
            let reason = reason.clone();
            async move {
                Ok(match asked.call.id.as_str() {
                    "c3" => Decision::deny(reason),
                    _ => Decision::Approve,
                })
            }
        });
        self.journal.drive(&agent, id, text, &cx).await.unwrap();
    }
}
