//! A systemd service that may do what the tools need and nothing else.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::action::Action;
use crate::action::builtin::Builtin;
use crate::config::Config;

/// What no tool needs is out of reach whatever the tools.
const ALWAYS: [&str; 22] = [
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=tmpfs",
    "PrivateTmp=yes",
    "PrivateMounts=yes",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectKernelLogs=yes",
    "ProtectControlGroups=yes",
    "ProtectClock=yes",
    "ProtectHostname=yes",
    "ProtectProc=invisible",
    "RestrictNamespaces=yes",
    "RestrictRealtime=yes",
    "RestrictSUIDSGID=yes",
    "LockPersonality=yes",
    "RemoveIPC=yes",
    "KeyringMode=private",
    "SystemCallArchitectures=native",
    "SystemCallFilter=@system-service",
    "SystemCallErrorNumber=EPERM",
    "UMask=0077",
];

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// The service's name, for its folder below `/var/lib`.
    pub name: String,
    /// The program, an absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Files that it reads, beside the tools' file: the model.
    pub reads: Vec<PathBuf>,
    /// Bytes of memory that it may take.
    pub memory_max: u64,
}

/// The text of a unit, and what its user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The file's content.
    pub text: String,
    /// What may need a hand.
    pub warnings: Vec<String>,
}

/// What tools need of the system.
#[derive(Debug, Default)]
struct Needs {
    network: bool,
    devices: BTreeSet<PathBuf>,
    writes: BTreeSet<PathBuf>,
    reads: BTreeSet<PathBuf>,
    users: bool,
    programs: bool,
    system_info: bool,
}

impl Needs {
    fn of(config: &Config) -> Self {
        let mut needs = Self { network: config.mqtt.is_some(), ..Self::default() };
        needs.writes.extend(config.audit.iter().filter_map(|a| a.file.parent()).map(Path::to_path_buf));
        needs.reads.extend(config.files.iter().cloned());
        for tool in &config.tools {
            match &tool.action {
                // What a program does cannot be known.
                Action::Exec(exec) => {
                    needs.programs = true;
                    needs.network = true;
                    needs.users |= exec.changes_user();
                    needs.reads.extend(exec.paths());
                }
                Action::Http(_) | Action::Mqtt(_) => needs.network = true,
                Action::Gpio(gpio) => needs.devices.extend(gpio.chips().map(Path::to_path_buf)),
                Action::File(files) => {
                    let to = if files.writes_to().is_some() { &mut needs.writes } else { &mut needs.reads };
                    to.insert(files.root().to_path_buf());
                }
                Action::Builtin(Builtin::SystemInfo) => needs.system_info = true,
                Action::Builtin(Builtin::Time) => {}
            }
        }
        needs
    }
}

impl Service {
    /// Writes the unit for an agent with these tools.
    pub fn unit(&self, config: &Config) -> Result<Unit, String> {
        let needs = Needs::of(config);
        let mut warnings = Vec::new();
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        if self.name.is_empty() || self.name.len() > 64 || !self.name.bytes().all(plain) {
            return Err(format!("{:?}: a service's name has letters, digits, '-' and '_'", self.name));
        }
        if !self.program.is_absolute() {
            return Err(format!("{}: the program's path must be absolute", self.program.display()));
        }
        let own = self.reads.iter().chain([&self.program, &config.path]);
        let paths = own.chain(&needs.devices).chain(&needs.writes).chain(&needs.reads);
        let words = paths.map(|p| p.to_string_lossy().into_owned()).chain(self.arguments.iter().cloned());
        if let Some(word) = words.into_iter().find(|w| w.chars().any(char::is_control)) {
            return Err(format!("{word:?} holds a control character: a unit cannot have it"));
        }
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.describe(&mut text, config, &needs, &mut warnings);
        let _ = confine(&mut text, &needs);
        let _ = self.paths(&mut text, config, &needs, &mut warnings);
        text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
        Ok(Unit { text, warnings })
    }

    fn describe(
        &self,
        out: &mut String,
        config: &Config,
        needs: &Needs,
        warnings: &mut Vec<String>,
    ) -> std::fmt::Result {
        writeln!(
            out,
            "[Unit]\nDescription=Katydid agent with the tools of {}",
            percent(&config.path.display().to_string())
        )?;
        if needs.network {
            writeln!(out, "Wants=network-online.target\nAfter=network-online.target")?;
        }
        writeln!(out, "StartLimitIntervalSec=300\nStartLimitBurst=10")?;
        write!(
            out,
            "\n[Service]\nType=exec\nExecStart={}",
            quote(&self.program.display().to_string(), true)
        )?;
        self.arguments.iter().try_for_each(|a| write!(out, " {}", quote(a, true)))?;
        writeln!(out, "\nRestart=on-failure\nRestartSec=5\nTimeoutStopSec={}", patience(config))?;
        writeln!(out, "StandardInput=null\nStateDirectory={}\nWorkingDirectory=%S/{}", self.name, self.name)?;
        if !config.variables.is_empty() {
            let file = format!("/etc/{}.env", self.name);
            writeln!(out, "# Secrets: {}", config.variables.join(", "))?;
            writeln!(out, "EnvironmentFile={file}")?;
            warnings.push(format!("put {} into {file}, readable by root only", config.variables.join(", ")));
        }
        if !needs.users && !needs.devices.is_empty() {
            warnings.push("the group gpio must exist and own the GPIO chips, as on Raspberry Pi OS".into());
        }
        if needs.users {
            writeln!(out, "# Tools run as other users, which only root may do.\nUser=root")?;
            writeln!(out, "CapabilityBoundingSet=CAP_SETUID CAP_SETGID CAP_KILL")?;
        } else {
            writeln!(out, "DynamicUser=yes\nCapabilityBoundingSet=\nAmbientCapabilities=")?;
        }
        writeln!(
            out,
            "MemoryMax={}\nMemorySwapMax=0\nTasksMax=128\nLimitCORE=0\nOOMPolicy=stop",
            self.memory_max
        )
    }

    fn paths(
        &self,
        out: &mut String,
        config: &Config,
        needs: &Needs,
        warnings: &mut Vec<String>,
    ) -> std::fmt::Result {
        let state = Path::new("/var/lib").join(&self.name);
        for path in needs.writes.iter().filter(|p| !p.starts_with(&state)) {
            // What is hidden is brought back by binding, which leaves it writable.
            let key = if is_hidden(path) { "BindPaths" } else { "ReadWritePaths" };
            writeln!(out, "{key}={}", quote(&path.display().to_string(), false))?;
            if !needs.users {
                warnings.push(format!("{} must be writable for the service's user", path.display()));
            }
        }
        let folder = config.path.parent().map(Path::to_path_buf);
        let reads = self.reads.iter().cloned().chain(folder).chain([self.program.clone()]);
        let reads: BTreeSet<_> = reads.chain(needs.reads.iter().cloned()).collect();
        let seen = |path: &Path| {
            let above = |p: &Path| reads.contains(p) || needs.writes.contains(p);
            needs.writes.contains(path) || path.ancestors().skip(1).any(above)
        };
        for path in reads.iter().filter(|p| is_hidden(p) && !seen(p)) {
            // What is not there yet keeps the service from starting otherwise.
            let absent = if path.exists() || self.reads.contains(path) { "" } else { "-" };
            let path = path.display();
            writeln!(out, "BindReadOnlyPaths={}", quote(&format!("{absent}{path}"), false))?;
            warnings.push(format!("{path} is in a folder that services do not see; /opt or /srv is better"));
        }
        Ok(())
    }
}

/// Whether services that are confined as ours do not see a path.
fn is_hidden(path: &Path) -> bool {
    ["/home", "/root", "/run/user", "/tmp", "/var/tmp"].iter().any(|hidden| path.starts_with(hidden))
}

/// Seconds in which an agent that is asked to end does: tools under way are
/// waited for.
fn patience(config: &Config) -> u64 {
    let longest = config.tools.iter().map(|t| t.timeout.as_secs_f64().ceil() as u64).max().unwrap_or(0);
    longest.saturating_add(20)
}

fn confine(out: &mut String, needs: &Needs) -> std::fmt::Result {
    ALWAYS.iter().try_for_each(|flag| writeln!(out, "{flag}"))?;
    // Programs may be interpreters that make code as they run.
    if !needs.programs {
        writeln!(out, "MemoryDenyWriteExecute=yes")?;
    }
    if !needs.system_info && !needs.programs {
        writeln!(out, "ProcSubset=pid")?;
    }
    if needs.network {
        writeln!(out, "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX")?;
        // Clouds keep their metadata there.
        writeln!(out, "IPAddressDeny=169.254.0.0/16 fe80::/10")?;
    } else {
        writeln!(out, "PrivateNetwork=yes\nRestrictAddressFamilies=AF_UNIX\nIPAddressDeny=any")?;
    }
    if needs.devices.is_empty() {
        return writeln!(out, "PrivateDevices=yes\nDevicePolicy=closed");
    }
    writeln!(out, "DevicePolicy=closed")?;
    for device in &needs.devices {
        writeln!(out, "DeviceAllow={} rw", quote(&device.display().to_string(), false))?;
    }
    if needs.users { Ok(()) } else { writeln!(out, "SupplementaryGroups=gpio") }
}

/// Specifiers are systemd's, ours are none.
fn percent(text: &str) -> String {
    text.replace('%', "%%")
}

/// A word of a unit as systemd reads it. `command`: also `$` is special.
fn quote(text: &str, command: bool) -> String {
    let mut out = percent(text);
    if command {
        out = out.replace('$', "$$");
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:=@%".contains(c);
    if !out.is_empty() && out.chars().all(plain) {
        return out;
    }
    format!("\"{}\"", out.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn unit(toml: &str) -> Unit {
        let config = Config::parse(Path::new("/etc/katydid/tools.toml"), toml).unwrap();
        let service = Service {
            name: "katydid-agent".into(),
            program: "/bin/true".into(),
            arguments: ["agent", "/srv/a model $x 100%.gguf", "--tools", "/etc/katydid/tools.toml"]
                .map(String::from)
                .into(),
            reads: vec!["/srv/model.gguf".into()],
            memory_max: 600 << 20,
        };
        service.unit(&config).unwrap()
    }

    fn has(text: &str, line: &str) -> bool {
        text.lines().any(|l| l == line)
    }

    #[test]
    fn a_unit_allows_what_tools_need() {
        let quiet = unit("[[tool]]\nname = \"t\"\nbuiltin = \"time\"");
        for line in [
            r#"ExecStart=/bin/true agent "/srv/a model $$x 100%%.gguf" --tools /etc/katydid/tools.toml"#,
            "NoNewPrivileges=yes",
            "PrivateNetwork=yes",
            "PrivateDevices=yes",
            "DynamicUser=yes",
            "CapabilityBoundingSet=",
            "MemoryMax=629145600",
            "MemoryDenyWriteExecute=yes",
            "StateDirectory=katydid-agent",
        ] {
            assert!(has(&quiet.text, line), "{line}\n{}", quiet.text);
        }
        assert!(quiet.warnings.is_empty(), "{:?}", quiet.warnings);
        let busy = unit(
            "[audit]\nfile = \"/var/log/katydid/a.jsonl\"\n[mqtt]\nhost = \"h\"\n\
             [[tool]]\nname = \"g\"\ndescription = \"x\"\ngpio = { op = \"read\", lines = { a = 1 } }\n\
             [[tool]]\nname = \"e\"\ndescription = \"x\"\nexec = { argv = [\"true\"], user = \"root\" }\n\
             [[tool]]\nname = \"f\"\ndescription = \"x\"\nfile = { root = \"/srv/notes\", op = \"append\", path = \"a\", content = \"b\" }",
        );
        for line in [
            "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
            "DeviceAllow=/dev/gpiochip0 rw",
            "ReadWritePaths=/srv/notes",
            "ReadWritePaths=/var/log/katydid",
            "User=root",
        ] {
            assert!(has(&busy.text, line), "{line}\n{}", busy.text);
        }
        assert!(!busy.text.contains("DynamicUser") && !busy.text.contains("PrivateDevices"));
    }

    #[test]
    fn names_and_paths_are_checked() {
        let config = Config::parse(Path::new("/x/tools.toml"), "").unwrap();
        let service = |name: &str, program: &str, argument: &str| Service {
            name: name.into(),
            program: program.into(),
            arguments: vec![argument.into()],
            reads: Vec::new(),
            memory_max: 1 << 30,
        };
        assert!(service("a b", "/bin/true", "").unit(&config).is_err());
        assert!(service("a", "true", "").unit(&config).is_err());
        assert!(service("a", "/bin/true", "x\nExecStartPre=/bin/evil").unit(&config).is_err());
        let home = Service { reads: vec!["/home/me/m.gguf".into()], ..service("a", "/bin/true", "") };
        let unit = home.unit(&config).unwrap();
        assert!(has(&unit.text, "BindReadOnlyPaths=/home/me/m.gguf") && unit.warnings.len() == 1);
    }

    #[test]
    fn what_tools_name_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().display().to_string();
        assert!(is_hidden(dir.path()), "the test needs a folder that is hidden");
        for name in ["token", "say.sh"] {
            std::fs::write(dir.path().join(name), "content").unwrap();
        }
        let toml = format!(
            "[[tool]]\nname = \"e\"\ndescription = \"x\"\ntimeout = \"90s\"\n\
             exec = {{ argv = [\"/home/no/prog\", \"{at}/say.sh\"], cwd = \"/root/work\", set_env = {{ T = \"${{file:{at}/token}}\" }} }}\n\
             [[tool]]\nname = \"r\"\ndescription = \"x\"\nfile = {{ root = \"/home/me/notes\", op = \"read\", path = \"a\" }}\n\
             [[tool]]\nname = \"w\"\ndescription = \"x\"\nfile = {{ root = \"/home/me/out\", op = \"append\", path = \"a\", content = \"b\" }}\n\
             [[tool]]\nname = \"o\"\ndescription = \"x\"\nfile = {{ root = \"/srv/notes\", op = \"read\", path = \"a\" }}"
        );
        let unit = unit(&toml);
        for line in [
            "BindReadOnlyPaths=-/home/no/prog".to_owned(),
            "BindReadOnlyPaths=-/root/work".to_owned(),
            format!("BindReadOnlyPaths={at}/say.sh"),
            format!("BindReadOnlyPaths={at}/token"),
            "BindReadOnlyPaths=-/home/me/notes".to_owned(),
            "BindPaths=/home/me/out".to_owned(),
            "TimeoutStopSec=110".to_owned(),
        ] {
            assert!(has(&unit.text, &line), "{line}\n{}", unit.text);
        }
        // What is to be seen anyway is not bound.
        assert!(!unit.text.contains("/srv/notes"), "{}", unit.text);
    }

    #[test]
    fn systemd_agrees() {
        let version = Command::new("systemd-analyze").arg("--version").output();
        if !version.is_ok_and(|v| v.status.success()) {
            println!("skipped: systemd-analyze absent");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        for (name, toml) in [
            ("quiet.service", "[[tool]]\nname = \"t\"\nbuiltin = \"time\""),
            (
                "busy.service",
                "[mqtt]\nhost = \"h\"\n[[tool]]\nname = \"g\"\ndescription = \"x\"\ngpio = { op = \"read\", lines = { a = 1 } }",
            ),
            (
                "home.service",
                "[[tool]]\nname = \"w\"\ndescription = \"x\"\ntimeout = \"5m\"\nfile = { root = \"/home/me/out\", op = \"append\", path = \"a\", content = \"b\" }",
            ),
        ] {
            let path = dir.path().join(name);
            std::fs::write(&path, unit(toml).text).unwrap();
            let out =
                Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&path).output().unwrap();
            let said = String::from_utf8_lossy(&out.stderr);
            let ours: Vec<&str> = said.lines().filter(|l| l.contains(name)).collect();
            assert!(out.status.success() && ours.is_empty(), "{said}");
        }
    }
}
