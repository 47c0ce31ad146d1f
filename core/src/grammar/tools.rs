//! Schemas of tool calls, made from the tools' names and parameters.
//!
//! Compile what [`schema`] writes like any other schema. Where a model may also
//! answer in plain text, wrap it ([`super::Wrap`]) with the text that its
//! template puts around calls: `<tool_call>` with lead `"\n"` and tail
//! `"\n</tool_call>"` for Hermes and Qwen, `[TOOL_CALLS]` for Mistral, and
//! `{"tool_calls"` as part of the value for [`Form::Wire`].

use core::fmt::{self, Write};

use crate::json::{self, NotJson, Page};

/// A tool that a model may call.
#[derive(Clone, Copy, Debug)]
pub struct Tool<'t> {
    /// Its name.
    pub name: &'t str,
    /// The JSON Schema of its arguments; empty where it takes none. References
    /// in it are to itself.
    pub parameters: &'t str,
}

/// What a model writes to call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form<'f> {
    /// `{"name":…,"arguments":{…}}`.
    Call {
        /// The key of the arguments: `arguments`, or `parameters` for Llama 3.
        arguments: &'f str,
    },
    /// A list of such calls.
    Calls {
        /// The key of the arguments.
        arguments: &'f str,
        /// Fewest calls.
        least: u16,
        /// Most calls.
        most: u16,
    },
    /// `{"tool_calls":[{"id":"call_…","type":"function","function":{"name":…,
    /// "arguments":"…"}}]}`, the arguments JSON in a string, as OpenAI's API has
    /// it and `PicoClaw` reads from a program's output. Every brace within the
    /// arguments' own strings is an escape.
    ///
    /// The ids are said beforehand, so that the model need not make them up and
    /// no two are the same.
    Wire {
        /// Most calls.
        most: u16,
        /// Of the first call, written as eight hexadecimal digits; the others
        /// count on from there.
        id: u32,
    },
}

/// Why there is no schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolsError {
    /// There are no tools.
    None,
    /// A tool's parameters are no JSON object.
    Parameters {
        /// Which tool, from 0.
        tool: usize,
        /// Why not.
        why: NotJson,
    },
    /// The schema does not fit.
    Room {
        /// Bytes it needs.
        need: usize,
        /// Bytes given.
        have: usize,
    },
}

impl fmt::Display for ToolsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no tool is given: give one, or leave the grammar out"),
            Self::Parameters { tool, why } => {
                write!(f, "the parameters of tool number {tool} are {why}: give a schema, or nothing")
            }
            Self::Room { need, have } => {
                write!(f, "the schema of the tools takes {need} bytes but there is room for {have}")
            }
        }
    }
}

impl core::error::Error for ToolsError {}

/// Writes the schema of calls of `tools` to `out`.
pub fn schema<'o>(tools: &[Tool<'_>], form: Form<'_>, out: &'o mut [u8]) -> Result<&'o str, ToolsError> {
    if tools.is_empty() {
        return Err(ToolsError::None);
    }
    for (tool, parameters) in tools.iter().map(|t| t.parameters.trim()).enumerate() {
        if !parameters.is_empty() {
            // What is no object would reach out of its place.
            json::object(parameters).map_err(|why| ToolsError::Parameters { tool, why })?;
        }
    }
    let have = out.len();
    let mut page = Page::new(out);
    // The page takes what fits and counts the rest.
    let _ = write_all(&mut page, tools, form);
    let need = page.need();
    page.split().0.ok_or(ToolsError::Room { need, have })
}

fn write_all(page: &mut Page<'_>, tools: &[Tool<'_>], form: Form<'_>) -> fmt::Result {
    match form {
        Form::Call { arguments } => write_calls(page, tools, arguments, false),
        Form::Calls { arguments, least, most } => {
            write!(page, "{{\"type\":\"array\",\"minItems\":{least},\"maxItems\":{most},\"items\":")?;
            write_calls(page, tools, arguments, false)?;
            page.write_str("}")
        }
        Form::Wire { most, id } => {
            page.write_str(
                "{\"type\":\"object\",\"properties\":{\"tool_calls\":{\"type\":\"array\",\"minItems\":1,",
            )?;
            write!(page, "\"maxItems\":{most},\"prefixItems\":[")?;
            for i in 0..most {
                let (comma, id) = (if i > 0 { "," } else { "" }, id.wrapping_add(i.into()));
                write!(
                    page,
                    "{comma}{{\"type\":\"object\",\"properties\":{{\"id\":{{\"const\":\"call_{id:08x}\"}},"
                )?;
                page.write_str(
                    "\"type\":{\"const\":\"function\"},\"function\":{\"$ref\":\"#/$defs/call\"}},",
                )?;
                page.write_str("\"required\":[\"id\",\"type\",\"function\"]}")?;
            }
            page.write_str("]}},\"required\":[\"tool_calls\"],\"$defs\":{\"call\":")?;
            write_calls(page, tools, "arguments", true)?;
            page.write_str("}}")
        }
    }
}

/// The schema of one call, an alternative for each tool.
fn write_calls(page: &mut Page<'_>, tools: &[Tool<'_>], arguments: &str, encoded: bool) -> fmt::Result {
    page.write_str("{\"anyOf\":[")?;
    for (i, tool) in tools.iter().enumerate() {
        if i > 0 {
            page.write_str(",")?;
        }
        page.write_str("{\"type\":\"object\",\"properties\":{\"name\":{\"const\":")?;
        page.string(tool.name);
        page.write_str("},")?;
        page.string(arguments);
        page.write_str(":")?;
        if encoded {
            page.write_str(
                "{\"type\":\"string\",\"contentMediaType\":\"application/json\",\"contentSchema\":",
            )?;
        }
        write_parameters(page, i, tool.parameters.trim())?;
        if encoded {
            page.write_str("}")?;
        }
        page.write_str("},\"required\":[\"name\",")?;
        page.string(arguments);
        page.write_str("],\"additionalProperties\":false}")?;
    }
    page.write_str("]}")
}

/// The arguments are an object whatever the parameters say, and references in
/// them are to themselves: that is what `$id` is for.
fn write_parameters(page: &mut Page<'_>, tool: usize, parameters: &str) -> fmt::Result {
    if parameters.is_empty() {
        return page.write_str("{\"type\":\"object\",\"additionalProperties\":false}");
    }
    page.write_str("{\"type\":\"object\",\"allOf\":[")?;
    if json::members(parameters).any(|(key, _)| key.is("$id")) {
        page.write_str(parameters)?;
    } else {
        let rest = parameters[1..].trim_start();
        let comma = if rest.starts_with('}') { "" } else { "," };
        write!(page, "{{\"$id\":\"urn:tool:{tool}\"{comma}{rest}")?;
    }
    page.write_str("]}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::matcher;
    use super::super::{Options, Spacing, Trigger, Wrap};
    use super::*;
    use std::string::ToString;

    const TOOLS: [Tool<'_>; 3] = [
        Tool {
            name: "get_weather",
            parameters: " {\"type\":\"object\",\"properties\":{\"city\":{\"$ref\":\"#/$defs/c\"}},\"required\":[\"city\"],\"$defs\":{\"c\":{\"type\":\"string\"}}}",
        },
        Tool {
            name: "say \"hi\"",
            parameters: "{\"$id\":\"x\",\"properties\":{\"n\":{\"type\":\"integer\"}}}",
        },
        Tool { name: "get_time", parameters: "" },
    ];

    #[test]
    fn calls_name_a_tool_and_keep_to_its_parameters() {
        let mut out = [0; 4096];
        let call = schema(&TOOLS, Form::Call { arguments: "arguments" }, &mut out).unwrap();
        let mut m = matcher(call, &Options::default());
        let mut whole = |text: &str| {
            m.restart();
            m.advance_all(text.bytes()) && m.is_complete()
        };
        assert!(whole("{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Ulm\"}}"));
        assert!(whole("{\"name\": \"say \\\"hi\\\"\", \"arguments\": {\"n\": 3}}"));
        assert!(whole("{\"name\": \"get_time\", \"arguments\": {}}"));
        assert!(!whole("{\"name\": \"get_time\", \"arguments\": {\"city\": \"Ulm\"}}"));
        assert!(!whole("{\"name\": \"get_weather\", \"arguments\": {}}"));
        assert!(!whole("{\"name\": \"other\", \"arguments\": {}}"));
        let calls = Form::Calls { arguments: "parameters", least: 1, most: 2 };
        let mut m = matcher(schema(&TOOLS, calls, &mut out).unwrap(), &Options::default());
        let mut buffer = [0; 64];
        let n = m.forced(&mut buffer);
        assert_eq!(&buffer[..n], b"[{\"name\": \"");
    }

    #[test]
    fn the_wire_form_counts_its_braces_right() {
        let mut out = [0; 4096];
        let wire = schema(&TOOLS, Form::Wire { most: 2, id: 0x00c0_ffee }, &mut out).unwrap();
        let triggers = [Trigger { text: "{\"tool_calls\"", part: true }];
        let wrap = Wrap { triggers: &triggers, lead: "", tail: "", again: false };
        let options = Options { spacing: Spacing::Compact, wrap: Some(wrap), ..Options::default() };
        let mut m = matcher(wire, &options);
        let good = "{\"tool_calls\":[{\"id\":\"call_00c0ffee\",\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"arguments\":\"{\\\"city\\\":\\\"a \\\\u007b \\\\\\\" b\\\"}\"}}]}";
        assert!(m.advance_all(good.bytes()) && m.is_complete());
        let bad = good.replace("\\\\u007b", "{");
        m.restart();
        assert!(!m.advance_all(bad.bytes()));
        m.restart();
        assert!(m.advance_all("No tool is needed for {this}.".bytes()) && m.can_end());
        assert!(m.advance_all("{\"tool_calls\"".bytes()));
        let mut buffer = [0; 99];
        let n = m.forced(&mut buffer);
        assert_eq!(
            &buffer[..n],
            b":[{\"id\":\"call_00c0ffee\",\"type\":\"function\",\"function\":{\"name\":\""
        );
        let mut end = [0; 400];
        let n = m.close(&mut end).unwrap();
        let end = core::str::from_utf8(&end[..n]).unwrap();
        assert!(end.ends_with("\"name\":\"get_time\",\"arguments\":\"{}\"}}]}"), "{end}");
    }

    #[test]
    fn refusals() {
        let form = Form::Call { arguments: "arguments" };
        let mut out = [0; 1000];
        assert_eq!(schema(&[], form, &mut out), Err(ToolsError::None));
        for bad in ["[]", "{", "{}}", "{},{}", "1", "{\"a\":\"}"] {
            let tools = [TOOLS[2], Tool { name: "x", parameters: bad }];
            let error = schema(&tools, form, &mut out).unwrap_err();
            assert!(matches!(error, ToolsError::Parameters { tool: 1, .. }), "{bad}");
        }
        let error = schema(&[Tool { name: "x", parameters: "{\"a\":" }], form, &mut out).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the parameters of tool number 0 are not a JSON object: it ends too soon at byte 5: give a schema, or nothing"
        );
        let need = schema(&TOOLS, form, &mut out).unwrap().len();
        let error = schema(&TOOLS, form, &mut out[..99]).unwrap_err();
        assert_eq!(error, ToolsError::Room { need, have: 99 });
        assert!(error.to_string().contains("bytes"));
    }
}
