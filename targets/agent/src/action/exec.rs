//! Programs, never through a shell: every item of the argument list reaches the
//! program as it is.
//!
//! A program has its own process group, no input unless the tool gives it some,
//! and only the environment that the tool names. When it ends or its time is up
//! the whole group ends. What it writes is read to the end, or to a bound, but
//! only so much is kept.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::Deserialize;

use super::{Check, Done, Prepared, Room};
use crate::template::{Escape, Template};
use crate::value::Value;

/// Where programs are looked for, and what they see as `PATH`.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// A program that writes more than this is stopped.
const FLOOD: u64 = 16 << 20;

/// Between asking a program to end and ending it.
const GRACE: Duration = Duration::from_millis(500);

/// How long the output of an ended program may stay open in others' hands.
const LINGER: Duration = Duration::from_millis(100);

/// How often a program that is silent is looked at.
const TICK: u16 = 20;

/// `exec` as TOML has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    argv: Vec<RawItem>,
    stdin: Option<String>,
    cwd: Option<PathBuf>,
    #[serde(default)]
    env: Vec<String>,
    #[serde(default)]
    set_env: BTreeMap<String, String>,
    user: Option<String>,
    #[serde(default)]
    allow_dash: bool,
}

/// An item, or items that stand or fall together.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawItem {
    One(String),
    Together(Vec<String>),
}

/// How to run a program.
#[derive(Debug)]
pub struct Exec {
    program: PathBuf,
    items: Vec<Vec<Template>>,
    stdin: Option<Template>,
    cwd: PathBuf,
    env: Vec<String>,
    set_env: Vec<(String, Template)>,
    user: Option<User>,
    allow_dash: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
}

impl Exec {
    pub(crate) fn check(raw: Raw, c: &mut Check<'_>) -> Result<Self, String> {
        let mut items = Vec::new();
        for item in raw.argv {
            let together = match item {
                RawItem::One(item) => vec![item],
                RawItem::Together(items) => items,
            };
            items.push(together.iter().map(|i| c.template(i)).collect::<Result<Vec<_>, _>>()?);
        }
        if items.is_empty() || items[0].len() != 1 {
            return Err("argv must begin with the program".into());
        }
        let first = items.remove(0).remove(0);
        if !first.is_fixed() || first.has_secret() {
            return Err(format!("{first:?}: the program itself cannot be an argument or a secret"));
        }
        if let Some(item) = items.iter().flatten().find(|i| i.has_secret()) {
            return Err(format!(
                "{item:?}: other users see a program's arguments; hand secrets on in set_env"
            ));
        }
        let program = first.render_whole(&Value::Null, Escape::Plain)?;
        refuse_scripts(&program, &items)?;
        let program = if program.contains('/') { c.folder.join(program) } else { PathBuf::from(program) };
        if find(&program).is_none() {
            c.warnings.push(format!("there is no program {} here", program.display()));
        }
        let set_env = raw.set_env.iter().map(|(k, v)| Ok((variable(k)?, c.whole(v)?)));
        let set_env = set_env.collect::<Result<_, String>>()?;
        raw.env.iter().try_for_each(|name| variable(name).map(drop))?;
        Ok(Self {
            program,
            items,
            set_env,
            stdin: raw.stdin.map(|s| c.template(&s)).transpose()?,
            cwd: c.folder.join(raw.cwd.unwrap_or("/".into())),
            env: raw.env,
            user: raw.user.map(|u| look_up(&u, Path::new("/etc/passwd"))).transpose()?,
            allow_dash: raw.allow_dash,
        })
    }

    pub(crate) fn prepare(&self, arguments: &Value) -> Result<Run<'_>, String> {
        let mut argv = Vec::new();
        let mut dash = self.allow_dash;
        for together in &self.items {
            let rendered: Result<Option<Vec<_>>, _> =
                together.iter().map(|i| i.items(arguments, dash)).collect();
            let Some(rendered) = rendered? else { continue };
            argv.extend(rendered.into_iter().flatten());
            // After `--` nothing is an option.
            dash |= together.iter().any(|i| i.source() == "--");
        }
        let stdin = self.stdin.as_ref().map(|t| t.render(arguments, Escape::Plain)).transpose()?.flatten();
        let set_env =
            self.set_env.iter().map(|(k, t)| Ok((k.clone(), t.render_whole(arguments, Escape::Plain)?)));
        let set_env: Vec<(String, String)> = set_env.collect::<Result<_, String>>()?;
        if let Some((name, _)) = set_env.iter().find(|(_, v)| v.contains('\0')) {
            return Err(format!("{name} cannot hold a zero byte"));
        }
        Ok(Run { exec: self, argv, stdin, set_env })
    }

    /// Whether it runs as somebody else.
    /// What it names on disk: the program, where it runs, and arguments that are
    /// always the same and lead to something.
    pub(crate) fn paths(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let fixed = self.items.iter().flatten().filter(|i| i.is_fixed());
        let words = fixed.filter_map(|i| i.render_whole(&Value::Null, Escape::Plain).ok()).map(PathBuf::from);
        let said = [self.program.clone(), self.cwd.clone()].into_iter();
        said.chain(words.filter(|w| w.exists())).filter(|p| p.is_absolute() && *p != Path::new("/"))
    }

    pub(crate) fn changes_user(&self) -> bool {
        self.user.is_some()
    }
}

fn variable(name: &str) -> Result<String, String> {
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        return Err(format!("{name:?} is no name of an environment variable"));
    }
    Ok(name.into())
}

/// Programs that take code from their arguments.
const INTERPRETERS: [&str; 31] = [
    "sh", "bash", "dash", "zsh", "ksh", "ash", "busybox", "fish", "csh", "tcsh", "python", "perl", "ruby",
    "node", "nodejs", "deno", "bun", "lua", "php", "tclsh", "expect", "pwsh", "env", "awk", "gawk", "mawk",
    "sed", "su", "runuser", "R", "Rscript",
];

/// Programs that hand all their arguments to a shell.
const SHELLS: [&str; 4] = ["ssh", "eval", "watch", "script"];

/// Interpreters would read an argument within a script as part of it, also
/// where another program (`timeout 5 sh -c …`) starts them.
fn refuse_scripts(program: &str, items: &[Vec<Template>]) -> Result<(), String> {
    let flat: Vec<&Template> = items.iter().flatten().collect();
    let words =
        std::iter::once(program).chain(flat.iter().map(|t| if t.is_fixed() { t.source() } else { "" }));
    for (i, word) in words.enumerate() {
        let name = Path::new(word).file_name().unwrap_or_default().to_string_lossy();
        let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        let rest = &flat[i..];
        let code = match stem {
            _ if SHELLS.contains(&stem) => rest.iter().find(|t| !t.is_fixed()),
            _ if INTERPRETERS.contains(&stem) => find_code(rest),
            _ => None,
        };
        if let Some(item) = code {
            return Err(format!(
                "{item:?}: {name} would run the argument as code; give it a fixed script and pass arguments after it"
            ));
        }
    }
    Ok(())
}

/// The first item that an interpreter may take for code and that holds an
/// argument: one before a fixed script, or one that follows an option for code.
fn find_code<'t>(items: &'t [&'t Template]) -> Option<&'t &'t Template> {
    let mut script = false;
    let mut flag = "";
    for item in items {
        let word = item.source();
        if item.is_fixed() {
            // What follows an option may be its value; but `-c CODE` is a script.
            script |= !word.starts_with('-') && (flag.is_empty() || takes_code(flag));
            flag = if word == "--" || !word.starts_with('-') { "" } else { word };
        } else if !script || word.starts_with('-') || takes_code(flag) {
            return Some(item);
        } else {
            flag = "";
        }
    }
    None
}

/// Whether an option is followed by code or by the file of a script.
fn takes_code(flag: &str) -> bool {
    match flag.strip_prefix("--") {
        Some(long) => ["eval", "run", "command", "file", "expression", "print"].contains(&long),
        None => flag.len() > 1 && flag.ends_with(['c', 'e', 'f', 'r', 'm', 'p', 'E', 'S']),
    }
}

/// The file that a program's name leads to.
fn find(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.into());
    }
    PATH.split(':').map(|dir| Path::new(dir).join(program)).find(|p| p.is_file())
}

/// Reads the file of users itself: a static executable has no other safe way.
fn look_up(name: &str, passwd: &Path) -> Result<User, String> {
    let text =
        std::fs::read_to_string(passwd).map_err(|e| format!("cannot read {}: {e}", passwd.display()))?;
    let entry = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let user = fields.next()?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        (user == name).then(|| User { name: name.into(), uid, gid })
    });
    entry.ok_or_else(|| format!("there is no user {name:?} on this machine: create it or take \"user\" out"))
}

/// A program about to run.
pub(crate) struct Run<'a> {
    exec: &'a Exec,
    argv: Vec<String>,
    stdin: Option<String>,
    set_env: Vec<(String, String)>,
}

impl Prepared for Run<'_> {
    fn describe(&self) -> String {
        let mut text = format!("run {}", self.exec.program.display());
        self.argv.iter().for_each(|item| text.push_str(&format!(" {item:?}")));
        if let Some(stdin) = &self.stdin {
            text.push_str(&format!(" with {} bytes of input", stdin.len()));
        }
        if let Some(user) = &self.exec.user {
            text.push_str(&format!(" as {}", user.name));
        }
        text
    }

    fn run(&self, room: &Room<'_>) -> Done {
        let mut child = match self.spawn() {
            Ok(child) => child,
            Err(why) => return Done::failed(why),
        };
        let group = Pid::from_raw(child.id() as i32);
        let input = self.stdin.clone().unwrap_or_default().into_bytes();
        let mut pipes = Pipes::new(&mut child, input, room.capture);
        let end = pipes.pump(group, room.deadline);
        if end != End::Exited {
            stop(group, &mut pipes);
        }
        // Whatever it left behind ends with it. Until the child is waited for
        // its number cannot be another's.
        let _ = killpg(group, Signal::SIGKILL);
        let status = reap(child, group);
        pipes.report(end, status, room.timeout)
    }
}

impl Run<'_> {
    fn spawn(&self) -> Result<Child, String> {
        let exec = self.exec;
        let shown = exec.program.display();
        let Some(program) = find(&exec.program) else {
            return Err(format!("the program {shown} does not exist on this machine"));
        };
        let mut command = Command::new(program);
        command.args(&self.argv).current_dir(&exec.cwd).process_group(0).env_clear();
        command.env("PATH", PATH).env("LANG", "C.UTF-8");
        command.envs(exec.env.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
        command.envs(self.set_env.iter().map(|(k, v)| (k, v)));
        if let Some(user) = &exec.user {
            // Being root, the standard library drops all other groups, too.
            if !nix::unistd::Uid::effective().is_root() {
                return Err(format!("only root can run a program as {}: run the agent as root", user.name));
            }
            command.uid(user.uid).gid(user.gid);
        }
        command.stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|e| match e.kind() {
            _ if !exec.cwd.is_dir() => format!("the folder {} does not exist", exec.cwd.display()),
            io::ErrorKind::PermissionDenied => format!("{shown} may not be run: {e}"),
            _ => format!("{shown} does not start: {e}"),
        })
    }
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Exited,
    TimedOut,
    Flooded,
}

/// What has been read of one stream.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    seen: u64,
}

impl Kept {
    /// Reads what is there; `false` at the end.
    fn read(&mut self, from: &mut impl Read, most: usize) -> bool {
        let mut buffer = [0; 8192];
        // A few times only: others wait.
        for _ in 0..8 {
            match from.read(&mut buffer) {
                Ok(0) => return false,
                Ok(n) => {
                    self.seen += n as u64;
                    let room = most.saturating_sub(self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..n.min(room)]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return true,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Our ends of a child's pipes.
struct Pipes {
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    stderr: Option<std::process::ChildStderr>,
    input: Vec<u8>,
    written: usize,
    out: Kept,
    err: Kept,
    most: usize,
}

impl Pipes {
    fn new(child: &mut Child, input: Vec<u8>, most: usize) -> Self {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let ends = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        // Where this fails a read may wait for the program, which the time
        // limit of the group still ends; it never fails on a pipe.
        for fd in ends.into_iter().flatten() {
            let _ = fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        }
        Self { stdin, stdout, stderr, input, written: 0, out: Kept::default(), err: Kept::default(), most }
    }

    /// Moves bytes until the program has ended and its output with it, or until
    /// it must be ended.
    fn pump(&mut self, group: Pid, deadline: Instant) -> End {
        let mut gone: Option<Instant> = None;
        loop {
            self.step();
            let now = Instant::now();
            if gone.is_none() && has_exited(group) {
                gone = Some(now);
            }
            let closed = self.stdout.is_none() && self.stderr.is_none();
            match gone {
                Some(at) if closed || now >= at + LINGER => return End::Exited,
                None if now >= deadline => return End::TimedOut,
                _ if self.out.seen + self.err.seen > FLOOD => return End::Flooded,
                _ => {}
            }
        }
    }

    /// Waits shortly for something to move, and moves it.
    fn step(&mut self) {
        fn watched<'f>(fds: &mut Vec<PollFd<'f>>, fd: Option<BorrowedFd<'f>>, what: PollFlags) {
            fds.extend(fd.map(|fd| PollFd::new(fd, what)));
        }
        let mut fds = Vec::with_capacity(3);
        watched(&mut fds, self.stdin.as_ref().map(AsFd::as_fd), PollFlags::POLLOUT);
        watched(&mut fds, self.stdout.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        watched(&mut fds, self.stderr.as_ref().map(AsFd::as_fd), PollFlags::POLLIN);
        // Only an end is waited for once all are closed, and that comes soon.
        let wait = if fds.is_empty() { 2 } else { TICK };
        let _ = poll(&mut fds, PollTimeout::from(wait));
        let most = self.most;
        if self.stdout.as_mut().is_some_and(|s| !self.out.read(s, most)) {
            self.stdout = None;
        }
        if self.stderr.as_mut().is_some_and(|s| !self.err.read(s, most)) {
            self.stderr = None;
        }
        self.write();
    }

    fn write(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        match stdin.write(&self.input[self.written..]) {
            Ok(n) => self.written += n,
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            // The program does not want it.
            Err(_) => self.written = self.input.len(),
        }
        if self.written == self.input.len() {
            self.stdin = None;
        }
    }

    fn report(self, end: End, status: Option<ExitStatus>, timeout: Duration) -> Done {
        let fate = match (end, status) {
            (End::TimedOut, _) => Some(format!("stopped: it took longer than {} s", timeout.as_secs_f32())),
            (End::Flooded, _) => Some(format!("stopped: it wrote more than {} MiB", FLOOD >> 20)),
            (End::Exited, None) => Some("its exit status is not known".into()),
            (End::Exited, Some(s)) if s.success() => None,
            (End::Exited, Some(s)) => Some(match s.signal().map(Signal::try_from) {
                Some(Ok(signal)) => format!("it died by signal {signal}"),
                Some(Err(_)) => "it died by a signal".into(),
                None => format!("exit code {}", s.code().unwrap_or(-1)),
            }),
        };
        let ok = fate.is_none();
        let mut content = fate.unwrap_or_default();
        for (kept, label) in [(&self.out, ""), (&self.err, "[stderr] ")] {
            let text = String::from_utf8_lossy(&kept.bytes);
            if !text.trim().is_empty() {
                content.push_str(if content.is_empty() { "" } else { "\n" });
                content.push_str(label);
                content.push_str(text.trim_end());
            }
        }
        let dropped = |kept: &Kept| kept.seen - kept.bytes.len() as u64;
        Done { ok, dropped: dropped(&self.out) + dropped(&self.err), content }
    }
}

/// Whether the child has ended. It stays to be waited for.
fn has_exited(child: Pid) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(waitid(Id::Pid(child), flags), Ok(WaitStatus::StillAlive) | Err(Errno::EINTR))
}

/// Asks a group to end, then ends it.
fn stop(group: Pid, pipes: &mut Pipes) {
    pipes.most = 0;
    let _ = killpg(group, Signal::SIGTERM);
    let end = Instant::now() + GRACE;
    while Instant::now() < end && !has_exited(group) {
        pipes.step();
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a child that was killed. One that the kernel does not let go
/// (waiting for a dead disk) is left to a thread.
fn reap(mut child: Child, pid: Pid) -> Option<ExitStatus> {
    let end = Instant::now() + GRACE;
    while !has_exited(pid) {
        if Instant::now() >= end {
            let _ = std::thread::Builder::new().name("reaper".into()).spawn(move || child.wait());
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.wait().ok()
}

#[cfg(test)]
#[path = "exec_tests.rs"]
mod tests;
