//! A QEMU plugin that counts guest instructions by function.
//!
//! `qemu-aarch64 -plugin libicount.so,out=FILE PROGRAM` runs the program and
//! then writes a line `COUNT SYMBOL` for every function entered, `?` for code
//! without a symbol. Works under any emulator with plugins of API version 1, as
//! QEMU 4.2 and later have when built with them (Debian's dynamic `qemu-user`
//! has, its static one has not).
//!
//! QEMU translates guest code in blocks of straight-line instructions. Each
//! block gets an instruction of its own that adds the block's length to its
//! function's counter. Such additions are not atomic: count programs on one
//! thread. A block belongs to the function of its first instruction.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};

/// `qemu_plugin_id_t`
type Id = u64;

/// A block of guest code; QEMU's.
#[repr(C)]
pub struct Block([u8; 0]);

/// A guest instruction; QEMU's.
#[repr(C)]
pub struct Instruction([u8; 0]);

unsafe extern "C" {
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, f: unsafe extern "C" fn(Id, *mut Block));
    fn qemu_plugin_register_atexit_cb(id: Id, f: unsafe extern "C" fn(Id, *mut c_void), data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_symbol(instruction: *const Instruction) -> *const c_char;
    fn qemu_plugin_register_vcpu_tb_exec_inline(block: *mut Block, op: c_int, at: *mut c_void, by: u64);
    fn qemu_plugin_outs(text: *const c_char);
}

/// `QEMU_PLUGIN_INLINE_ADD_U64`, the only operation there is.
const ADD: c_int = 0;

/// The plugin API this was written for; QEMU reads it.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU's name")]
pub static qemu_plugin_version: c_int = 1;

/// Counters by symbol. Each is a leaked allocation: QEMU's code writes to it
/// until the process ends.
static COUNTERS: Mutex<Option<HashMap<String, Counter>>> = Mutex::new(None);

/// The file to write.
static OUT: OnceLock<String> = OnceLock::new();

struct Counter(*mut u64);

// SAFETY: the pointer is to a leaked allocation. QEMU's code alone writes there,
// and it is read when the guest has ended.
unsafe impl Send for Counter {}

/// Called by QEMU once, before the guest starts. 0 is success.
///
/// # Safety
/// `argv` holds `argc` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    _info: *const c_void,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    for i in 0..usize::try_from(argc).unwrap_or(0) {
        // SAFETY: the caller's promise.
        let arg = unsafe { CStr::from_ptr(*argv.add(i)) }.to_string_lossy().into_owned();
        match arg.strip_prefix("out=") {
            Some(path) => _ = OUT.set(path.to_owned()),
            None => say(&format!("icount: {arg} is not out=FILE\n")),
        }
    }
    if OUT.get().is_none() {
        say("icount: give out=FILE\n");
        return 1;
    }
    // SAFETY: both functions are as QEMU wants them.
    unsafe {
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
        qemu_plugin_register_atexit_cb(id, ended, std::ptr::null_mut());
    }
    0
}

/// QEMU has translated a block: let it count.
unsafe extern "C" fn translated(_: Id, block: *mut Block) {
    // SAFETY: `block` is valid during this call and has an instruction; symbols
    // are null or C strings.
    unsafe {
        let symbol = qemu_plugin_insn_symbol(qemu_plugin_tb_get_insn(block, 0));
        let name = if symbol.is_null() { "?".into() } else { CStr::from_ptr(symbol).to_string_lossy() };
        let mut counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
        let counters = counters.get_or_insert_default();
        let at = match counters.get(&*name) {
            Some(counter) => counter.0,
            None => {
                let at = Box::into_raw(Box::new(0));
                counters.insert(name.into_owned(), Counter(at));
                at
            }
        };
        qemu_plugin_register_vcpu_tb_exec_inline(block, ADD, at.cast(), qemu_plugin_tb_n_insns(block) as u64);
    }
}

/// The guest has ended: write what was counted.
unsafe extern "C" fn ended(_: Id, _: *mut c_void) {
    let mut text = String::new();
    let counters = COUNTERS.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, counter) in counters.iter().flatten() {
        // SAFETY: never freed; nothing runs any more that writes there.
        let count = unsafe { counter.0.read_volatile() };
        if count > 0 {
            _ = writeln!(text, "{count} {name}");
        }
    }
    let out = OUT.get().map_or("", String::as_str);
    if let Err(e) = std::fs::write(out, text) {
        say(&format!("icount: {out}: {e}\n"));
    }
}

fn say(text: &str) {
    let text = CString::new(text).unwrap_or_default();
    // SAFETY: a C string.
    unsafe { qemu_plugin_outs(text.as_ptr()) }
}
