//! The metadata keys of tokenizers (GGUF specification, "Tokenizer").

pub(super) const MODEL: &str = "tokenizer.ggml.model";
pub(super) const PRE: &str = "tokenizer.ggml.pre";
pub(super) const TOKENS: &str = "tokenizer.ggml.tokens";
pub(super) const SCORES: &str = "tokenizer.ggml.scores";
pub(super) const TYPES: &str = "tokenizer.ggml.token_type";
pub(super) const MERGES: &str = "tokenizer.ggml.merges";
pub(super) const BOS: &str = "tokenizer.ggml.bos_token_id";
pub(super) const EOS: &str = "tokenizer.ggml.eos_token_id";
pub(super) const EOT: &str = "tokenizer.ggml.eot_token_id";
pub(super) const EOM: &str = "tokenizer.ggml.eom_token_id";
pub(super) const UNKNOWN: &str = "tokenizer.ggml.unknown_token_id";
pub(super) const FIM_PAD: &str = "tokenizer.ggml.fim_pad_token_id";
pub(super) const FIM_REP: &str = "tokenizer.ggml.fim_rep_token_id";
pub(super) const FIM_SEP: &str = "tokenizer.ggml.fim_sep_token_id";
pub(super) const ADD_BOS: &str = "tokenizer.ggml.add_bos_token";
pub(super) const ADD_EOS: &str = "tokenizer.ggml.add_eos_token";
pub(super) const SPACE_PREFIX: &str = "tokenizer.ggml.add_space_prefix";
pub(super) const NAME: &str = "general.name";
