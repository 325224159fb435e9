//! The names of enums in JSON, of tools in modules, and of structs in `_type`.

use serde_json::json;
use toolwright::prelude::*;
use toolwright::signature::{Contract, type_tag};

#[data]
#[derive(Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Priority {
    Low,
    Critical,
}

#[data]
#[derive(Copy, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Status {
    Pending,
    InProgress,
    #[serde(rename(serialize = "done", deserialize = "finished"))]
    Completed,
    #[serde(alias = "gone")]
    #[cfg(any())]
    Lost,
}

/// Change the priority and the status of a task.
#[tool]
fn update_task(
    /// New priority.
    priority: Priority,
    /// New status.
    status: Status,
) -> String {
    format!("Updated to {} priority with {} status", priority.as_str(), status.as_str())
}

#[tokio::test]
async fn an_enum_has_the_name_that_stands_in_json() {
    for (status, name) in [
        (Status::Pending, "pending"),
        (Status::InProgress, "in-progress"),
        (Status::Completed, "done"),
    ] {
        assert_eq!(status.as_str(), name);
        assert_eq!(serde_json::to_value(status).unwrap(), json!(name));
    }
    let arguments = json!({"priority": "critical", "status": "in-progress"}).to_string();
    let output = UpdateTask::tool().unwrap().call(&arguments, &Context::default()).await.unwrap();
    assert_eq!(output.text, "Updated to critical priority with in-progress status");
}

/// Of an enum that is no text in JSON, the attribute makes no `as_str`, so the type may have one.
#[test]
fn an_enum_that_is_no_text_in_json_has_no_such_name() {
    macro_rules! with_a_method_of_its_own {
        ($($name:ident)*) => {
            $(impl $name {
                fn as_str(&self) -> &'static str {
                    stringify!($name)
                }
            })*
        };
    }
    #[data]
    enum Shape {
        Circle(f64),
        Nothing,
    }
    #[data]
    #[serde(tag = "kind")]
    enum Tagged {
        Nothing,
    }
    #[data]
    #[serde(untagged)]
    enum Untagged {
        Nothing,
    }
    #[data]
    #[serde(into = "u8", try_from = "u8")]
    #[schemars(with = "u8")]
    enum Number {
        One,
    }
    impl From<Number> for u8 {
        fn from(_: Number) -> Self {
            1
        }
    }
    impl TryFrom<u8> for Number {
        type Error = String;
        fn try_from(number: u8) -> Result<Self, String> {
            (number == 1).then_some(Self::One).ok_or_else(|| format!("{number} is not 1"))
        }
    }
    with_a_method_of_its_own!(Shape Tagged Untagged Number);
    assert_eq!(Shape::Circle(1.0).as_str(), Shape::Nothing.as_str());
    assert_eq!(Tagged::Nothing.as_str(), "Tagged");
    assert_eq!(Untagged::Nothing.as_str(), "Untagged");
    assert_eq!(Number::One.as_str(), "Number");
}

/// Two modules, each with its tools.
mod legal {
    use toolwright::prelude::*;

    /// Search for cases.
    #[tool(namespace)]
    pub(super) fn search_cases() -> u8 {
        1
    }

    /// Of tax law.
    pub(super) mod r#type {
        use toolwright::prelude::*;

        #[derive(Clone)]
        pub(crate) struct Cases;

        #[toolset(namespace, prefix = "")]
        impl Cases {
            /// Search for cases.
            #[tool]
            fn search() -> u8 {
                2
            }

            /// Read a case.
            #[tool(name = "read_a_case")]
            fn read() -> u8 {
                3
            }
        }
    }
}

#[tokio::test]
async fn the_path_of_a_module_separates_tools_of_one_name() {
    // The first parts are those of this file.
    let tool = legal::SearchCases::tool().unwrap();
    assert_eq!(tool.name(), "attributes_wire_names_legal_search_cases");
    assert_eq!(tool.call("{}", &Context::default()).await.unwrap().text, "1");
    assert_eq!(legal::search_cases(), 1);

    let tools = legal::r#type::Cases.tools().unwrap();
    let names: Vec<_> = tools.iter().map(Tool::name).collect();
    assert_eq!(names, ["attributes_wire_names_legal_type_search", "read_a_case"]);
}

#[data]
#[serde(tag = "_type", rename = "TaskMeta")]
#[schemars(transform = type_tag::<Self>)]
struct TaskMetadata {
    id: String,
}

/// Store the metadata of a task.
#[tool]
fn store(
    /// The metadata.
    metadata: TaskMetadata,
) -> TaskMetadata {
    metadata
}

#[tokio::test]
async fn a_type_tag_has_the_name_that_serde_writes() {
    let contract = Contract::of::<Store>().unwrap();
    let written = serde_json::to_value(TaskMetadata { id: "1".to_owned() }).unwrap();
    let tag = &contract.input()["properties"]["metadata"]["properties"]["_type"];
    assert_eq!((&written["_type"], &tag["const"]), (&json!("TaskMeta"), &json!("TaskMeta")));
    let called = Store::tool().unwrap();
    let arguments = json!({"metadata": written}).to_string();
    let output = called.call(&arguments, &Context::default()).await.unwrap();
    assert_eq!(output.text, r#"{"_type":"TaskMeta","id":"1"}"#);
}
