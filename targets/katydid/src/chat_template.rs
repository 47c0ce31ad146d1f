//! Which chat template a conversation is written with.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow};
use katydid_agent::jinja::JinjaTemplate;
use katydid_core::chat::{CallSyntax, Out, Style, Template, TemplateError, ToolSpec, Turns};
use katydid_core::text::Tokenizer;

use crate::report;

/// The model's own template, or one of ours.
pub(crate) enum ChatTemplate {
    Own(Box<JinjaTemplate>),
    Style(Style),
}

impl ChatTemplate {
    /// The style called `name`; without a name the model's `own`, or where that
    /// does not run, the style that it looks like, which is said.
    pub(crate) fn choose(name: Option<&str>, own: Option<&str>, tokenizer: &Tokenizer<'_>) -> Result<Self> {
        let names = || Style::ALL.map(Style::name).join(" ");
        if let Some(name) = name {
            let style = Style::from_name(name);
            return style
                .map(Self::Style)
                .ok_or_else(|| anyhow!("no template is called '{name}'; there are: {}", names()));
        }
        let Some(own) = own else {
            return Err(anyhow!(
                "the model file has no chat template: give one with --template: {}",
                names()
            ));
        };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or("");
        match JinjaTemplate::new(own, text(tokenizer.bos()), text(tokenizer.eos())) {
            Ok(template) => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
                Ok(Self::Own(Box::new(template.with_time(now as i64))))
            }
            Err(e) => match Style::detect(own) {
                Some(style) => {
                    let name = style.name();
                    report::say(format_args!(
                        "katydid: the model's own chat template does not run ({e}); taking {name}"
                    ));
                    Ok(Self::Style(style))
                }
                None => Err(anyhow!(
                    "the model's own chat template does not run ({e}): give one with --template: {}",
                    names()
                )),
            },
        }
    }

    /// Texts that end an answer and are no tokens of the vocabulary.
    pub(crate) fn stops(&self, tokenizer: &Tokenizer<'_>) -> Vec<&'static str> {
        let ends = match self {
            Self::Own(_) => &[],
            Self::Style(style) => style.ends(),
        };
        ends.iter().copied().filter(|end| tokenizer.find(end).is_none()).collect()
    }

    /// What is wrong, as well as is known.
    pub(crate) fn explain(&self) -> Option<String> {
        match self {
            Self::Own(template) => template.last_error().map(|e| e.to_string()),
            Self::Style(_) => None,
        }
    }
}

impl Template for ChatTemplate {
    fn render(
        &self,
        tools: &[ToolSpec<'_>],
        turns: &dyn Turns,
        out: &mut dyn Out,
    ) -> Result<(), TemplateError> {
        match self {
            Self::Own(template) => template.render(tools, turns, out),
            Self::Style(style) => style.render(tools, turns, out),
        }
    }

    fn syntax(&self) -> CallSyntax {
        match self {
            Self::Own(template) => template.syntax(),
            Self::Style(style) => style.syntax(),
        }
    }
}
