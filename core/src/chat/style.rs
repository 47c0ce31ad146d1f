//! The conversation styles of common families of models, for boards that cannot
//! run the template a model file carries, and for files that carry none.
//!
//! | style | marks as in | tools |
//! |---|---|---|
//! | [`Style::ChatMl`] | OpenAI's ChatML, OpenHermes, SmolLM | ours, called as Hermes models do |
//! | [`Style::Llama2`] | Llama 2 chat | ours |
//! | [`Style::Llama3`] | Llama 3, 3.1, 3.2 | as trained, in the system turn |
//! | [`Style::Zephyr`] | Zephyr, `TinyLlama` chat | ours |
//! | [`Style::Qwen`] | Qwen 2.5 and 3 | as trained |
//! | [`Style::Gemma`] | Gemma 1 to 3 | ours |
//! | [`Style::FunctionGemma`] | `FunctionGemma` | as trained |
//! | [`Style::Phi3`] | Phi 3 and 3.5 | ours |
//! | [`Style::Mistral`] | Mistral 7B Instruct v0.3 (tokenizer v3) | as trained |
//! | [`Style::Katydid`] | ChatML | ours, without instructions |
//!
//! The marks are those of the templates that the families' makers publish with
//! the models (`tokenizer_config.json`), and so is the wording of tools "as
//! trained". "Ours" is for families without tools: they are described before the
//! system text, so that a clock in that does not change what comes before it,
//! and what was computed for the tools can be kept.
//!
//! Where a family's template does what costs every cached token, we do not: the
//! day's date of Llama 3.1 is left out, and Mistral's system text stays with the
//! first question instead of moving on to the last.

use super::write::Writer;
use super::{CallSyntax, Out, Template, TemplateError, ToolSpec, Turn, Turns};

/// A family's way to write conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// `<|im_start|>user\n…<|im_end|>\n`.
    ChatMl,
    /// `<s>[INST] <<SYS>>\n…\n<</SYS>>\n\n… [/INST] … </s>`.
    Llama2,
    /// `<|start_header_id|>user<|end_header_id|>\n\n…<|eot_id|>`.
    Llama3,
    /// `<|user|>\n…</s>\n`.
    Zephyr,
    /// ChatML with Qwen's tools, and thoughts that are forgotten.
    Qwen,
    /// `<start_of_turn>user\n…<end_of_turn>\n`.
    Gemma,
    /// Gemma's with declarations of functions.
    FunctionGemma,
    /// `<|user|>\n…<|end|>\n`.
    Phi3,
    /// `[INST] …[/INST] …</s>`.
    Mistral,
    /// ChatML with tools listed first and nothing said about them: models
    /// trained with this engine know.
    Katydid,
}

/// What stands around turns.
pub(super) struct Marks {
    /// Before everything.
    pub(super) bos: &'static str,
    pub(super) system: [&'static str; 2],
    pub(super) user: [&'static str; 2],
    /// Around answers that were given.
    pub(super) assistant: [&'static str; 2],
    /// Before the answer that is due.
    pub(super) prompt: &'static str,
    /// The system text is part of the first user's turn.
    pub(super) inside: bool,
    /// White space around texts goes: system, user, assistant.
    pub(super) trim: [bool; 3],
}

impl Marks {
    const CHATML: Self = Self {
        bos: "",
        system: ["<|im_start|>system\n", "<|im_end|>\n"],
        user: ["<|im_start|>user\n", "<|im_end|>\n"],
        assistant: ["<|im_start|>assistant\n", "<|im_end|>\n"],
        prompt: "<|im_start|>assistant\n",
        inside: false,
        trim: [false; 3],
    };
    const LLAMA2: Self = Self {
        bos: "",
        system: ["<<SYS>>\n", "\n<</SYS>>\n\n"],
        user: ["<s>[INST] ", " [/INST]"],
        assistant: [" ", " </s>"],
        prompt: "",
        inside: true,
        trim: [false, true, true],
    };
    const LLAMA3: Self = Self {
        bos: "<|begin_of_text|>",
        system: ["<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>"],
        user: ["<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>"],
        assistant: ["<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>"],
        prompt: "<|start_header_id|>assistant<|end_header_id|>\n\n",
        inside: false,
        trim: [true; 3],
    };
    const ZEPHYR: Self = Self {
        bos: "",
        system: ["<|system|>\n", "</s>\n"],
        user: ["<|user|>\n", "</s>\n"],
        assistant: ["<|assistant|>\n", "</s>\n"],
        prompt: "<|assistant|>\n",
        inside: false,
        trim: [false; 3],
    };
    const GEMMA: Self = Self {
        bos: "<bos>",
        system: ["", "\n\n"],
        user: ["<start_of_turn>user\n", "<end_of_turn>\n"],
        assistant: ["<start_of_turn>model\n", "<end_of_turn>\n"],
        prompt: "<start_of_turn>model\n",
        inside: true,
        trim: [false, true, true],
    };
    const FUNCTION_GEMMA: Self = Self {
        system: ["<start_of_turn>developer\n", "<end_of_turn>\n"],
        inside: false,
        trim: [true; 3],
        ..Self::GEMMA
    };
    const PHI3: Self = Self {
        bos: "",
        system: ["<|system|>\n", "<|end|>\n"],
        user: ["<|user|>\n", "<|end|>\n"],
        assistant: ["<|assistant|>\n", "<|end|>\n"],
        prompt: "<|assistant|>\n",
        inside: false,
        trim: [false; 3],
    };
    const MISTRAL: Self = Self {
        bos: "<s>",
        system: ["", "\n\n"],
        user: ["[INST] ", "[/INST]"],
        assistant: [" ", "</s>"],
        prompt: "",
        inside: true,
        trim: [false, false, true],
    };
}

impl Style {
    /// All there are.
    pub const ALL: [Self; 10] = [
        Self::ChatMl,
        Self::Llama2,
        Self::Llama3,
        Self::Zephyr,
        Self::Qwen,
        Self::Gemma,
        Self::FunctionGemma,
        Self::Phi3,
        Self::Mistral,
        Self::Katydid,
    ];

    /// What people call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ChatMl => "chatml",
            Self::Llama2 => "llama2",
            Self::Llama3 => "llama3",
            Self::Zephyr => "zephyr",
            Self::Qwen => "qwen",
            Self::Gemma => "gemma",
            Self::FunctionGemma => "functiongemma",
            Self::Phi3 => "phi3",
            Self::Mistral => "mistral",
            Self::Katydid => "katydid",
        }
    }

    /// The style of that name; case, `-`, `_`, `.` and spaces do not matter.
    pub fn from_name(name: &str) -> Option<Self> {
        let plain = |c: &char| !matches!(c, '-' | '_' | '.' | ' ');
        Self::ALL.into_iter().find(|style| {
            let given = name.chars().filter(plain).map(|c| c.to_ascii_lowercase());
            given.eq(style.name().chars())
        })
    }

    /// The style that a model's own template (`tokenizer.chat_template`) writes,
    /// by the marks in it. None where they are of no family here.
    pub fn detect(chat_template: &str) -> Option<Self> {
        let has = |mark: &str| chat_template.contains(mark);
        Some(if has("<start_function_declaration>") {
            Self::FunctionGemma
        } else if has("<start_of_turn>") {
            Self::Gemma
        } else if has("<|start_header_id|>") {
            Self::Llama3
        } else if has("<|im_start|>") && !has("<|im_sep|>") {
            match () {
                () if has("katydid") => Self::Katydid,
                () if has("<tool_response>") => Self::Qwen,
                () => Self::ChatMl,
            }
        } else if has("[INST]") && has("<<SYS>>") {
            Self::Llama2
        } else if has("[INST]") {
            Self::Mistral
        } else if has("<|assistant|>") && has("<|end|>") {
            Self::Phi3
        } else if has("<|assistant|>") && (has("</s>") || has("eos_token")) {
            Self::Zephyr
        } else {
            return None;
        })
    }

    /// Control tokens that end an answer. A vocabulary's own end tokens do, too.
    pub fn ends(self) -> &'static [&'static str] {
        match self {
            Self::ChatMl | Self::Qwen | Self::Katydid => &["<|im_end|>"],
            Self::Llama2 | Self::Zephyr | Self::Mistral => &["</s>"],
            Self::Llama3 => &["<|eot_id|>", "<|eom_id|>"],
            Self::Gemma => &["<end_of_turn>"],
            Self::FunctionGemma => &["<end_of_turn>", "<start_function_response>"],
            Self::Phi3 => &["<|end|>"],
        }
    }

    pub(super) fn marks(self) -> &'static Marks {
        match self {
            Self::ChatMl | Self::Qwen | Self::Katydid => &Marks::CHATML,
            Self::Llama2 => &Marks::LLAMA2,
            Self::Llama3 => &Marks::LLAMA3,
            Self::Zephyr => &Marks::ZEPHYR,
            Self::Gemma => &Marks::GEMMA,
            Self::FunctionGemma => &Marks::FUNCTION_GEMMA,
            Self::Phi3 => &Marks::PHI3,
            Self::Mistral => &Marks::MISTRAL,
        }
    }
}

impl core::fmt::Display for Style {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl Template for Style {
    fn render(
        &self,
        tools: &[ToolSpec<'_>],
        turns: &dyn Turns,
        out: &mut dyn Out,
    ) -> Result<(), TemplateError> {
        let mut users = 0usize;
        turns.each(&mut |turn| {
            users += usize::from(matches!(turn, Turn::User(_)));
            Ok(())
        })?;
        let mut writer = Writer::new(*self, tools, users, out);
        turns.each(&mut |turn| writer.turn(turn))?;
        writer.finish()?;
        Ok(())
    }

    fn syntax(&self) -> CallSyntax {
        match self {
            Self::ChatMl | Self::Qwen | Self::Katydid => CallSyntax::Hermes,
            Self::Llama2 | Self::Zephyr | Self::Gemma | Self::Phi3 => CallSyntax::Json,
            Self::Llama3 => CallSyntax::Llama3,
            Self::FunctionGemma => CallSyntax::FunctionGemma,
            Self::Mistral => CallSyntax::Mistral,
        }
    }
}
