//! The file as TOML has it, before anything is checked.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use toml::Spanned;

use crate::action::{builtin, exec, file, gpio, http, mqtt};
use crate::value::Value;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Root {
    #[serde(default)]
    pub(super) agent: Option<Spanned<Agent>>,
    pub(super) audit: Option<Audit>,
    pub(super) mqtt: Option<Spanned<Mqtt>>,
    #[serde(default)]
    pub(super) interval: Vec<Spanned<Interval>>,
    #[serde(default)]
    pub(super) tool: Vec<Tool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Agent {
    pub(super) system: Option<String>,
    pub(super) system_file: Option<PathBuf>,
    pub(super) calls: Option<super::Calls>,
    pub(super) max_steps: Option<u32>,
    pub(super) max_parallel: Option<usize>,
    pub(super) max_tokens: Option<u32>,
    pub(super) reply_bytes: Option<usize>,
    pub(super) result_bytes: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Audit {
    pub(super) file: PathBuf,
    pub(super) max_bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mqtt {
    pub(super) host: String,
    pub(super) port: Option<u16>,
    #[serde(default)]
    pub(super) tls: bool,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) client_id: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password_env: Option<String>,
    pub(super) password_file: Option<String>,
    #[serde(default)]
    pub(super) subscribe: Vec<String>,
    pub(super) reply_topic: Option<String>,
    pub(super) qos: Option<u8>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) keep_alive: Option<Duration>,
    pub(super) queue: Option<usize>,
    #[serde(default)]
    pub(super) keep_session: bool,
    #[serde(default)]
    pub(super) accept_retained: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Interval {
    #[serde(deserialize_with = "duration")]
    pub(super) every: Option<Duration>,
    pub(super) prompt: String,
    pub(super) reply_topic: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tool {
    pub(super) name: Spanned<String>,
    pub(super) description: Option<String>,
    pub(super) parameters: Option<Value>,
    pub(super) parameters_file: Option<PathBuf>,
    pub(super) policy: Option<super::Policy>,
    #[serde(default, deserialize_with = "duration")]
    pub(super) timeout: Option<Duration>,
    pub(super) max_output: Option<usize>,
    pub(super) exec: Option<exec::Raw>,
    pub(super) http: Option<http::Raw>,
    pub(super) mqtt: Option<mqtt::Raw>,
    pub(super) gpio: Option<gpio::Raw>,
    pub(super) file: Option<file::Raw>,
    pub(super) builtin: Option<builtin::Builtin>,
}

/// `"500ms"`, `"10s"`, `"5m"`, `"2h"`, `"1d"`.
fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(from)?;
    let wrong = || {
        D::Error::custom(format_args!(
            "{text:?} is no length of time: write \"500ms\", \"10s\", \"5m\" or \"2h\""
        ))
    };
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let milli = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(milli).map(|ms| Some(Duration::from_millis(ms))).ok_or_else(wrong)
}
