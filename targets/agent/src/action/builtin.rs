//! Tools that need no description: the time, and how the machine is.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Deserialize;

use super::{Done, Prepared, Room};
use crate::time;

/// `builtin` as TOML has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Builtin {
    /// Date and time, here and in UTC.
    Time,
    /// Load, memory, uptime, temperatures, space.
    SystemInfo,
}

impl Builtin {
    /// What the model is told unless the TOML says something else.
    pub(crate) fn description(self) -> &'static str {
        match self {
            Self::Time => "The current date, time and weekday.",
            Self::SystemInfo => "Load, memory, uptime, temperatures and disk space of this machine.",
        }
    }
}

impl Prepared for Builtin {
    fn describe(&self) -> String {
        match self {
            Self::Time => "tell the time".into(),
            Self::SystemInfo => "tell how the machine is".into(),
        }
    }

    fn run(&self, _: &Room<'_>) -> Done {
        match self {
            Self::Time => Done::ok(now(SystemTime::now())),
            Self::SystemInfo => Done::ok(system_info(Path::new("/"))),
        }
    }
}

fn now(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
    let offset = time::local_offset(seconds);
    let local = time::Date::at(seconds + offset);
    let (sign, offset) = (if offset < 0 { '-' } else { '+' }, offset.unsigned_abs() / 60);
    format!(
        "{} {local} (UTC{sign}{:02}:{:02})\nUTC: {}",
        local.weekday(),
        offset / 60,
        offset % 60,
        time::Date::at(seconds)
    )
}

/// Reads what the kernel tells below `root`; what it does not tell is left out.
fn system_info(root: &Path) -> String {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let mut lines = Vec::new();
    if let Some(host) = read("proc/sys/kernel/hostname") {
        lines.push(format!("host: {}", host.trim()));
    }
    if let Some(text) = read("proc/loadavg") {
        let load: Vec<&str> = text.split_whitespace().take(3).collect();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        lines.push(format!("load (1, 5, 15 min): {} on {cpus} processors", load.join(" ")));
    }
    if let Some(text) = read("proc/meminfo") {
        let mib = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kb| kb >> 10)
        };
        if let (Some(free), Some(all)) = (mib("MemAvailable:"), mib("MemTotal:")) {
            lines.push(format!("memory: {free} of {all} MiB available"));
        }
    }
    if let Some(up) = read("proc/uptime").and_then(|t| t.split('.').next()?.parse::<u64>().ok()) {
        lines.push(format!("up for {} d {} h {} min", up / 86400, up / 3600 % 24, up / 60 % 60));
    }
    lines.extend(temperatures(root));
    if let Ok(disk) = nix::sys::statvfs::statvfs(root) {
        // Their types differ by platform.
        #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
        let gib = |blocks: u64| blocks as f64 * disk.fragment_size() as f64 / f64::from(1 << 30);
        #[allow(clippy::useless_conversion)]
        let (free, all) = (gib(disk.blocks_available().into()), gib(disk.blocks().into()));
        lines.push(format!("disk: {free:.1} of {all:.1} GiB free"));
    }
    lines.join("\n")
}

fn temperatures(root: &Path) -> Vec<String> {
    let Ok(zones) = std::fs::read_dir(root.join("sys/class/thermal")) else { return Vec::new() };
    let mut found: Vec<String> = zones
        .flatten()
        .take(64)
        .filter_map(|zone| {
            let read = |name: &str| std::fs::read_to_string(zone.path().join(name)).ok();
            let milli: i32 = read("temp")?.trim().parse().ok()?;
            let name = read("type").unwrap_or_default();
            Some(format!("temperature of {}: {:.1} °C", name.trim(), f64::from(milli) / 1000.0))
        })
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_time_is_told() {
        let text = now(UNIX_EPOCH + Duration::from_secs(1_709_210_096));
        assert!(text.ends_with("UTC: 2024-02-29 12:34:56"), "{text}");
        assert!(text.contains("day 2024-0") && text.contains("(UTC"), "{text}");
    }

    #[test]
    fn the_machine_is_told_of() {
        let root = tempfile::tempdir().unwrap();
        let zone = root.path().join("sys/class/thermal/thermal_zone0");
        std::fs::create_dir_all(&zone).unwrap();
        std::fs::write(zone.join("temp"), "48312\n").unwrap();
        std::fs::write(zone.join("type"), "cpu-thermal\n").unwrap();
        std::fs::create_dir_all(root.path().join("proc")).unwrap();
        std::fs::write(root.path().join("proc/uptime"), "93784.12 1.0\n").unwrap();
        std::fs::write(root.path().join("proc/loadavg"), "0.50 0.25 0.10 1/200 3000\n").unwrap();
        std::fs::write(root.path().join("proc/meminfo"), "MemTotal: 948304 kB\nMemAvailable: 524288 kB\n")
            .unwrap();
        let text = system_info(root.path());
        for part in [
            "load (1, 5, 15 min): 0.50 0.25 0.10",
            "memory: 512 of 926 MiB",
            "up for 1 d 2 h 3 min",
            "cpu-thermal: 48.3 °C",
            "disk: ",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(system_info(Path::new("/")).contains("memory: "));
        assert!(system_info(&root.path().join("none")).is_empty());
    }
}
