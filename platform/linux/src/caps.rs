//! What the processor can do.

use katydid_core::port::{CpuCaps, CpuFlags};

/// Instruction sets found on this processor.
pub fn cpu_caps() -> CpuCaps {
    // SAFETY: just found, and Linux runs a program only on processors that agree.
    unsafe { CpuCaps::assume(found()) }
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn found() -> CpuFlags {
    // The macro answers yes only where the system saves the wide registers.
    CpuFlags {
        avx2: is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c"),
        avx512_vnni: is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni"),
        ..CpuFlags::default()
    }
}

#[cfg(target_arch = "aarch64")]
fn found() -> CpuFlags {
    use std::arch::is_aarch64_feature_detected as has;
    CpuFlags { neon: has!("neon"), dotprod: has!("dotprod"), i8mm: has!("i8mm"), ..CpuFlags::default() }
}

// `dotprod` and `i8mm` stay false: on 32-bit ARM they name instructions that
// no kernel of ours uses.
#[cfg(target_arch = "arm")]
fn found() -> CpuFlags {
    // The standard library's detection macro for 32-bit ARM is not stable, so
    // ask the kernel: bit 12 of AT_HWCAP is NEON (Linux, asm/hwcap.h).
    const HWCAP_NEON: nix::libc::c_ulong = 1 << 12;
    // SAFETY: `getauxval` takes any key, touches no memory of ours and answers
    // 0 for keys it does not know.
    let hwcap = unsafe { nix::libc::getauxval(nix::libc::AT_HWCAP) };
    CpuFlags { neon: hwcap & HWCAP_NEON != 0, ..CpuFlags::default() }
}

// Nothing that we have kernels for.
#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64", target_arch = "arm")))]
fn found() -> CpuFlags {
    CpuFlags::default()
}

#[cfg(test)]
mod tests {
    use super::cpu_caps;

    /// The kernel prints what it found, by other names, in /proc/cpuinfo.
    #[test]
    fn agrees_with_the_kernel() {
        let Ok(info) = std::fs::read_to_string("/proc/cpuinfo") else {
            println!("skipped: /proc/cpuinfo absent");
            return;
        };
        let Some(line) = info.lines().find(|l| l.starts_with("flags") || l.starts_with("Features")) else {
            println!("skipped: no feature line in /proc/cpuinfo");
            return;
        };
        let has = |flag: &str| line.split_whitespace().any(|w| w == flag);
        let caps = cpu_caps().flags();
        println!("{caps:?}");
        if cfg!(any(target_arch = "x86_64", target_arch = "x86")) {
            assert_eq!(caps.avx2, has("avx2") && has("f16c"));
            let all = ["avx512f", "avx512bw", "avx512vl", "avx512_vnni"];
            assert_eq!(caps.avx512_vnni, all.into_iter().all(has));
            assert!(!caps.neon && !caps.dotprod && !caps.i8mm);
        } else if cfg!(target_arch = "aarch64") {
            // Under user-mode emulation the line is the host's.
            if has("asimd") {
                assert_eq!((caps.neon, caps.dotprod, caps.i8mm), (true, has("asimddp"), has("i8mm")));
            }
            assert!(caps.neon && !caps.avx2);
        }
    }
}
