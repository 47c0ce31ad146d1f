//! What the cross-crate tests share: test data, and engines over files.

pub mod random;
pub mod tiny;

use std::path::PathBuf;

use katydid_core::arena::{ALIGN, Arena};
use katydid_core::gguf::{Gguf, Part, Parts};
use katydid_core::kernels::{Isa, Kernels};
use katydid_core::model::{Config, Engine, Options};
use katydid_core::plan::MemoryPlan;
use serde_json::Value;

/// A file or folder of the shared test data, where that lies beside the
/// project. Says so when it does not, so that no test is skipped in silence.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared");
    let file = PathBuf::from(root).join(path);
    if file.exists() {
        return Some(file);
    }
    println!("skipped: {} is absent", file.display());
    None
}

/// How many times slower than a machine of its own this one is: 1 but under
/// emulation, where `KATYDID_PATIENCE` says. Stretches time limits and shrinks
/// inputs that are large for the sake of such a limit.
pub fn patience() -> u32 {
    std::env::var("KATYDID_PATIENCE").ok().and_then(|p| p.parse().ok()).unwrap_or(1).max(1)
}

/// Kernels of every instruction set that this machine has, best last.
pub fn all_kernels() -> Vec<Kernels> {
    let caps = katydid_linux::cpu_caps();
    let all: Vec<_> = Isa::ALL.into_iter().filter_map(|isa| Kernels::of(isa, &caps)).collect();
    println!("instruction sets: {:?}", all.iter().map(Kernels::isa).collect::<Vec<_>>());
    all
}

/// The best kernels of this machine.
pub fn kernels() -> Kernels {
    Kernels::select(&katydid_linux::cpu_caps())
}

/// Runs `test` with an engine over the GGUF file `bytes`.
pub fn with_engine<R>(
    bytes: &[u8],
    options: Options,
    kernels: Kernels,
    test: impl FnOnce(&mut Engine<'_>) -> R,
) -> R {
    let gguf = Gguf::parse(bytes, bytes.len() as u64).expect("a readable file");
    let files = [Part { gguf, bytes }];
    let parts = Parts::new(&files).expect("one part");
    let config = Config::read(&parts).expect("a model");
    let mut plan = MemoryPlan::new();
    Engine::plan(&mut plan, &config, &options).expect("options in range");
    let mut memory = vec![0xa5; plan.total() as usize + ALIGN];
    let mut arena = Arena::new(&mut memory);
    let mut engine = Engine::load(&parts, &options, kernels, &mut arena).expect("a whole model");
    assert_eq!(arena.used() as u64, plan.total(), "the plan is what is taken");
    test(&mut engine)
}

/// The ids in a JSON array.
pub fn ids(value: &Value) -> Vec<u32> {
    value.as_array().expect("an array").iter().map(|v| v.as_u64().expect("an id") as u32).collect()
}

/// A parsed JSON file.
pub fn json(path: &std::path::Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON")
}

/// The index of the largest number, the first where several are.
pub fn argmax(x: &[f32]) -> u32 {
    (0..x.len()).reduce(|best, i| if x[i] > x[best] { i } else { best }).expect("not empty") as u32
}
