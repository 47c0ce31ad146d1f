//! Everything from a file's bytes to a few tokens of text, errors as text.

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::gguf::{Gguf, Part, Parts};
use katydid_core::model::{Config, Engine, Options};
use katydid_core::plan::MemoryPlan;
use katydid_core::port::OneWorker;
use katydid_core::sample::argmax;
use katydid_core::text::{Detokenizer, Encode, Sizes, Tables, Tokenizer, scratch_len};
use katydid_tests::kernels;

pub(crate) const OPTIONS: Options = Options { context: 8, batch: 3, drafts: 0 };

/// More than any small model plans.
const BUDGET: u64 = 64 << 20;

/// Loads a model and its tokenizer and runs two tokens. Errs with the message
/// where it is refused; models whose plan is too large are not taken further.
pub(crate) fn load(file: &[u8], options: Options) -> Result<(), String> {
    let gguf = Gguf::parse(file, file.len() as u64).map_err(|e| e.to_string())?;
    let files = [Part { gguf, bytes: file }];
    let parts = Parts::new(&files).map_err(|e| e.to_string())?;
    let config = Config::read(&parts).map_err(|e| e.to_string())?;
    let sizes = Sizes::of(parts.meta()).map_err(|e| e.to_string())?;
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &options).map_err(|e| e.to_string())?;
    Tables::lay_out(&mut plan, &sizes).map_err(|e| e.to_string())?;
    plan.check(BUDGET).map_err(|e| e.to_string())?;

    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    let mut engine = Engine::load(&parts, &options, kernels(), &mut arena).map_err(|e| e.to_string())?;
    let tables = Tables::lay_out(&mut arena, &sizes).map_err(|e| e.to_string())?;
    let tokenizer = Tokenizer::build(parts.meta(), tables).map_err(|e| e.to_string())?;
    run(&mut engine, &tokenizer);
    Ok(())
}

/// Whatever this model makes of text, it must not panic.
fn run(engine: &mut Engine<'_>, tokenizer: &Tokenizer<'_>) {
    let (mut scratch, mut ids) = (vec![0; scratch_len(16)], [0; 32]);
    // A changed vocabulary may have no way to write this.
    let _ = tokenizer.encode(b"a text <s>", Encode::default(), &mut scratch, &mut ids);
    let last = engine.config().vocab as u32 - 1;
    engine.eval(&OneWorker, &[last.min(5), last], &mut |_| true).expect("known ids");
    let mut text = String::new();
    if let Ok(id) = argmax(engine.logits()) {
        Detokenizer::new(true).push(tokenizer, id, &mut text).expect("room");
    }
}

/// The message that `file` is refused with: one line.
pub(crate) fn refused(file: &[u8], what: &str) -> String {
    let Err(message) = load(file, OPTIONS) else { panic!("{what}: not refused") };
    assert!(!message.contains('\n') && message.len() < 300, "{what}: {message}");
    message
}
