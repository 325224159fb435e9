//! The same trivial tool under many names: as a handler, as a module, and by hand.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_group::{Handle, ToolGroup};
use toolwright_module::{Context, Effect, Result, Signature, Tool, ToolCall, from_fn};

pub(crate) const SIZES: [usize; 3] = [3, 30, 300];

pub(crate) const ARGUMENTS: &str = r#"{"a": 20, "b": 1}"#;

/// Add two numbers.
#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Add {
    a: i64,
    b: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sum {
    sum: i64,
}

impl Signature for Add {
    type Output = Sum;
}

/// Add two numbers.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct Numbered<const N: usize> {
    a: i64,
    b: i64,
}

impl<const N: usize> Handle<i64, i64> for Numbered<N> {
    async fn handle(self, cx_in: &i64, _cx: &Context) -> Result<(String, i64)> {
        Ok((serde_json::to_string(&Sum { sum: self.a + self.b })?, *cx_in))
    }

    fn name() -> Cow<'static, str> {
        name(N).into()
    }
}

/// The outcome of a dispatch by hand.
#[allow(dead_code, reason = "created, but not read")]
pub(crate) struct ByHand {
    pub(crate) id: String,
    pub(crate) content: String,
    pub(crate) context: Option<i64>,
    pub(crate) failed: Option<&'static str>,
}

fn answer<const N: usize>(call: &ToolCall, cx_in: i64) -> Result<ByHand, serde_json::Error> {
    let Numbered::<N> { a, b } = match serde_json::from_str(&call.arguments) {
        Ok(numbered) => numbered,
        Err(fault) => return Ok(failed(call, fault.to_string(), "invalid_arguments")),
    };
    let content = serde_json::to_string(&Sum { sum: a + b })?;
    Ok(ByHand { id: call.id.clone(), content, context: Some(cx_in), failed: None })
}

fn failed(call: &ToolCall, content: String, reason: &'static str) -> ByHand {
    ByHand { id: call.id.clone(), content, context: None, failed: Some(reason) }
}

fn unknown(call: &ToolCall) -> ByHand {
    failed(call, format!("Tool, `{}` not found.", call.name), "invalid_name")
}

/// Creates one match arm and one handler for each number.
macro_rules! numbered {
    ($($by_hand:ident $group:ident [$($n:literal)*])*) => {$(
        pub(crate) fn $by_hand(call: &ToolCall, cx_in: i64) -> Result<ByHand, serde_json::Error> {
            match call.name.as_str() {
                $(concat!("add_to_account_", $n) => answer::<$n>(call, cx_in),)*
                _ => Ok(unknown(call)),
            }
        }

        fn $group() -> Result<ToolGroup<i64, i64>, toolwright_signature::ContractError> {
            let group = ToolGroup::new();
            $(let group = group.handler::<Numbered<$n>>()?;)*
            Ok(group)
        }
    )*};
}

numbered! {
    by_hand_3 group_3 [0 1 2]
    by_hand_30 group_30 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29
    ]
    by_hand_300 group_300 [
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
        33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61
        62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90
        91 92 93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114
        115 116 117 118 119 120 121 122 123 124 125 126 127 128 129 130 131 132 133 134 135 136
        137 138 139 140 141 142 143 144 145 146 147 148 149 150 151 152 153 154 155 156 157 158
        159 160 161 162 163 164 165 166 167 168 169 170 171 172 173 174 175 176 177 178 179 180
        181 182 183 184 185 186 187 188 189 190 191 192 193 194 195 196 197 198 199 200 201 202
        203 204 205 206 207 208 209 210 211 212 213 214 215 216 217 218 219 220 221 222 223 224
        225 226 227 228 229 230 231 232 233 234 235 236 237 238 239 240 241 242 243 244 245 246
        247 248 249 250 251 252 253 254 255 256 257 258 259 260 261 262 263 264 265 266 267 268
        269 270 271 272 273 274 275 276 277 278 279 280 281 282 283 284 285 286 287 288 289 290
        291 292 293 294 295 296 297 298 299
    ]
}

pub(crate) type Dispatch = fn(&ToolCall, i64) -> Result<ByHand, serde_json::Error>;

pub(crate) fn by_hand(size: usize) -> Dispatch {
    match size {
        3 => by_hand_3,
        30 => by_hand_30,
        _ => by_hand_300,
    }
}

pub(crate) fn handlers(size: usize) -> ToolGroup<i64, i64> {
    let group = match size {
        3 => group_3(),
        30 => group_30(),
        _ => group_300(),
    };
    group.unwrap()
}

pub(crate) fn modules(size: usize) -> ToolGroup<i64, i64> {
    (0..size).fold(ToolGroup::new(), |group, n| {
        let add = from_fn(async |Add { a, b }: Add| Ok(Sum { sum: a + b }));
        let tool = Tool::new(add.with_effect(Effect::Read)).unwrap();
        group.tool(tool.named(&name(n)).unwrap()).unwrap()
    })
}

fn name(n: usize) -> String {
    format!("add_to_account_{n}")
}

/// One call of each tool.
pub(crate) fn calls(size: usize) -> Vec<ToolCall> {
    let call = |n| ToolCall::new(format!("call_{n:020}"), name(n), ARGUMENTS);
    (0..size).map(call).collect()
}
