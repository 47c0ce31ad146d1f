//! Which processors this process may use, best first.

use std::path::Path;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Where the kernel describes its processors.
const SYSTEM: &str = "/sys/devices/system/cpu";

/// Threads worth starting: the physical cores this process may use, where the
/// system says which those are, else the processors; at least 1, and no more
/// than a control group's share of time.
pub fn default_threads() -> usize {
    // Counts the share of time; where it fails, what the mask says will do.
    let share = std::thread::available_parallelism().map_or(usize::MAX, |n| n.get());
    let cpus = Cpus::find();
    cpus.cores.clamp(1, share.max(1))
}

/// The processors this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    /// One thread of each core first, fast cores before slow, then the other
    /// threads; ties in the system's order.
    pub(crate) order: Vec<usize>,
    /// How many at the start of `order` are on cores of their own.
    pub(crate) cores: usize,
}

impl Cpus {
    /// Asks the system. An empty answer means that it would not say.
    pub(crate) fn find() -> Self {
        rank(&allowed(), Path::new(SYSTEM))
    }
}

/// Processors in the process's affinity mask.
fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu).unwrap_or(false)).collect()
}

/// Binds the calling thread to one processor. False when the system refuses.
pub(crate) fn bind_to(cpu: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(cpu).is_ok() && sched_setaffinity(Pid::from_raw(0), &set).is_ok()
}

fn rank(allowed: &[usize], system: &Path) -> Cpus {
    let mut keyed: Vec<(bool, u64, usize)> = allowed
        .iter()
        .map(|&cpu| (second_thread(cpu, allowed, system), u64::MAX - capacity(cpu, system), cpu))
        .collect();
    keyed.sort_unstable();
    Cpus {
        cores: keyed.iter().filter(|k| !k.0).count(),
        order: keyed.into_iter().map(|(_, _, cpu)| cpu).collect(),
    }
}

/// Whether an earlier processor that we may use is on the same core.
fn second_thread(cpu: usize, allowed: &[usize], system: &Path) -> bool {
    let path = system.join(format!("cpu{cpu}/topology/thread_siblings_list"));
    let Ok(list) = std::fs::read_to_string(path) else { return false };
    allowed.iter().any(|&other| other < cpu && in_list(&list, other))
}

/// How fast a processor is, relative to the others; 0 where nobody says.
fn capacity(cpu: usize, system: &Path) -> u64 {
    // ARM systems with unlike cores give a capacity; others only a clock.
    ["cpu_capacity", "cpufreq/cpuinfo_max_freq"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(system.join(format!("cpu{cpu}/{file}"))).ok())
        .find_map(|text| text.trim().parse().ok())
        .unwrap_or(0)
}

/// Whether a kernel list such as "0-3,8" holds `cpu`.
fn in_list(list: &str, cpu: usize) -> bool {
    list.trim().split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
            (Ok(first), Ok(last)) => (first..=last).contains(&cpu),
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_kernel_lists() {
        assert!(in_list("0-3,8\n", 2) && in_list("0-3,8\n", 8) && in_list("5", 5));
        assert!(!in_list("0-3,8\n", 4) && !in_list("", 0) && !in_list("x-y", 0));
    }

    #[test]
    fn ranks_fast_cores_first_and_sibling_threads_last() {
        let dir = std::env::temp_dir().join(format!("katydid-cpus-{}", std::process::id()));
        // Two slow cores (0, 1), then one fast core of two threads (2, 3).
        for (cpu, siblings, speed) in
            [(0, "0", "400"), (1, "1", "400"), (2, "2-3", "1024"), (3, "2-3", "1024")]
        {
            let cpu = dir.join(format!("cpu{cpu}"));
            std::fs::create_dir_all(cpu.join("topology")).unwrap();
            std::fs::write(cpu.join("topology/thread_siblings_list"), format!("{siblings}\n")).unwrap();
            std::fs::write(cpu.join("cpu_capacity"), format!("{speed}\n")).unwrap();
        }
        assert_eq!(rank(&[0, 1, 2, 3], &dir), Cpus { order: vec![2, 0, 1, 3], cores: 3 });
        // Without leave to use 2, its sibling is a core of its own.
        assert_eq!(rank(&[0, 3], &dir), Cpus { order: vec![3, 0], cores: 2 });
        std::fs::remove_dir_all(&dir).unwrap();
        // Nothing described: all are cores, in the system's order.
        assert_eq!(rank(&[4, 6], &dir), Cpus { order: vec![4, 6], cores: 2 });
    }

    #[test]
    fn at_least_one_thread() {
        let n = default_threads();
        assert!(n >= 1 && n <= allowed().len().max(1));
    }
}
