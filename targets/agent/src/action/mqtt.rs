//! Messages to the broker.

use serde::Deserialize;

use super::{Check, Done, Prepared, Room};
use crate::template::{Escape, Template, Tree};
use crate::topic as topics;
use crate::value::Value;

/// `mqtt` as TOML has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    topic: String,
    payload: Option<String>,
    json: Option<Value>,
    #[serde(default = "one")]
    qos: u8,
    #[serde(default)]
    retain: bool,
}

fn one() -> u8 {
    1
}

#[derive(Debug)]
enum Payload {
    Text(Template),
    Json(Tree),
}

/// What to publish.
#[derive(Debug)]
pub struct Publish {
    topic: Template,
    payload: Payload,
    qos: u8,
    retain: bool,
}

impl Publish {
    pub(crate) fn check(raw: Raw, c: &mut Check<'_>) -> Result<Self, String> {
        let topic = c.whole(&raw.topic)?;
        if topic.is_fixed() {
            topics::check(&topic.render_whole(&Value::Null, Escape::Topic)?)?;
        }
        let payload = match (raw.payload, raw.json) {
            (Some(text), None) => Payload::Text(c.whole(&text)?),
            (None, Some(json)) => Payload::Json(Tree::parse(&json, &c.names, c.secrets)?),
            _ => return Err("give either \"payload\" or \"json\"".into()),
        };
        if raw.qos > 1 {
            return Err(format!("qos = {}: 0 (send and forget) or 1 (until it is confirmed)", raw.qos));
        }
        Ok(Self { topic, payload, qos: raw.qos, retain: raw.retain })
    }

    pub(crate) fn prepare(&self, arguments: &Value) -> Result<Message<'_>, String> {
        let topic = self.topic.render_whole(arguments, Escape::Topic)?;
        topics::check(&topic)?;
        let payload = match &self.payload {
            Payload::Text(text) => text.render_whole(arguments, Escape::Plain)?,
            Payload::Json(tree) => tree.render(arguments)?.unwrap_or(Value::Null).to_string(),
        };
        Ok(Message { publish: self, topic, payload })
    }
}

/// A message about to be published.
pub(crate) struct Message<'a> {
    publish: &'a Publish,
    topic: String,
    payload: String,
}

impl Prepared for Message<'_> {
    fn describe(&self) -> String {
        let kept = if self.publish.retain { ", to be kept" } else { "" };
        format!("publish {:?} on {}{kept}", self.payload, self.topic)
    }

    fn run(&self, room: &Room<'_>) -> Done {
        // Loading tools made sure that there is a broker.
        let Some(link) = room.link else { return Done::failed("there is no broker") };
        if link.is_ours(&self.topic) {
            return Done::failed(format!("refused: the agent itself listens on {}", self.topic));
        }
        let Self { publish, topic, payload } = self;
        let result = link.publish(topic, payload.as_bytes(), publish.qos, publish.retain, room.deadline);
        result.map(|()| format!("published on {topic}")).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    #[test]
    fn messages_are_put_together() {
        let bench = Bench::new(r#"{"room":{"type":"string","default":"hall"},"level":{"type":"integer"}}"#);
        let toml = "topic = \"home/{room}/set\"\njson = { brightness = \"{level}\", by = \"katydid\" }\nretain = true";
        let publish = bench.check(toml, Publish::check).unwrap();
        let describe = |arguments: &str| Ok(publish.prepare(&Value::parse(arguments).unwrap())?.describe());
        let expected = r#"publish "{\"brightness\":7,\"by\":\"katydid\"}" on home/a b/set, to be kept"#;
        assert_eq!(describe(r#"{"room":"a b","level":7}"#), Ok::<_, String>(expected.into()));
        assert!(describe(r##"{"room":"#","level":7}"##).unwrap_err().contains("topic"));
        for (toml, says) in [
            ("topic = \"a/+\"\npayload = \"x\"", "cannot hold"),
            ("topic = \"$SYS/a\"\npayload = \"x\"", "broker's own"),
            ("topic = \"a\"", "either"),
            ("topic = \"a\"\npayload = \"x\"\nqos = 2", "qos = 2"),
            ("topic = \"a/{level}\"\npayload = \"x\"", "may be absent"),
        ] {
            let error = bench.check(toml, Publish::check).unwrap_err();
            assert!(error.contains(says), "{toml}: {error}");
        }
    }
}
