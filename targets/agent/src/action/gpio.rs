//! Lines of GPIO chips, through the kernel's character device.
//!
//! Only lines that the TOML names can be reached. A line that was set stays
//! requested, and so keeps its level, while the agent lives.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;

use super::{Check, Done, Prepared, Room};
use crate::template::{Escape, Template};
use crate::value::Value;

/// `gpio` as TOML has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    #[serde(default = "first_chip")]
    chip: PathBuf,
    op: Op,
    lines: BTreeMap<String, RawLine>,
    line: Option<String>,
    value: Option<String>,
    #[serde(default)]
    high: Vec<String>,
    #[serde(default)]
    low: Vec<String>,
}

fn first_chip() -> PathBuf {
    "/dev/gpiochip0".into()
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum RawLine {
    Number(u32),
    Full(RawFull),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFull {
    line: u32,
    #[serde(default)]
    active_low: bool,
    #[serde(default)]
    bias: Bias,
}

/// What is done with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Gives its level.
    Read,
    /// Sets it.
    Write,
}

/// What holds an input that nothing drives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bias {
    /// As the board has it.
    #[default]
    AsIs,
    /// High.
    PullUp,
    /// Low.
    PullDown,
}

/// A line of a chip.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    /// The chip's device file.
    pub chip: PathBuf,
    /// The line's number on it.
    pub number: u32,
    /// Active means low.
    pub active_low: bool,
    /// For inputs.
    pub bias: Bias,
}

/// Somewhere that lines are.
pub trait Chip: Send {
    /// Whether a line is active. Errs in words for people.
    fn read(&mut self, line: &Line) -> Result<bool, String>;

    /// Makes a line an output and sets it.
    fn write(&mut self, line: &Line, active: bool) -> Result<(), String>;
}

/// The lines that tools share.
pub struct Chips(Mutex<Box<dyn Chip>>);

impl Chips {
    /// Lines of some other sort.
    pub fn new(chip: Box<dyn Chip>) -> Self {
        Self(Mutex::new(chip))
    }
}

/// The machine's own.
impl Default for Chips {
    fn default() -> Self {
        Self::new(Box::<Device>::default())
    }
}

impl fmt::Debug for Chips {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GPIO lines")
    }
}

/// The kernel's character devices.
#[derive(Default)]
struct Device {
    outputs: Vec<(Line, gpiocdev::Request)>,
}

impl Device {
    fn builder(line: &Line) -> gpiocdev::request::Builder {
        let mut builder = gpiocdev::Request::builder();
        builder.on_chip(&line.chip).with_consumer("katydid").with_line(line.number);
        if line.active_low {
            builder.as_active_low();
        }
        builder
    }

    fn explain(line: &Line, error: &gpiocdev::Error) -> String {
        let chip = line.chip.display();
        if !line.chip.exists() {
            return format!("there is no GPIO chip {chip} on this machine");
        }
        format!("line {} of {chip}: {error}", line.number)
    }
}

impl Chip for Device {
    fn read(&mut self, line: &Line) -> Result<bool, String> {
        let read = match self.outputs.iter().find(|(l, _)| l.number == line.number && l.chip == line.chip) {
            Some((_, request)) => request.value(line.number),
            None => {
                let mut builder = Self::builder(line);
                builder.as_input();
                match line.bias {
                    Bias::AsIs => {}
                    Bias::PullUp => drop(builder.with_bias(gpiocdev::line::Bias::PullUp)),
                    Bias::PullDown => drop(builder.with_bias(gpiocdev::line::Bias::PullDown)),
                }
                builder.request().and_then(|request| request.value(line.number))
            }
        };
        Ok(read.map_err(|e| Self::explain(line, &e))? == gpiocdev::line::Value::Active)
    }

    fn write(&mut self, line: &Line, active: bool) -> Result<(), String> {
        let value = if active { gpiocdev::line::Value::Active } else { gpiocdev::line::Value::Inactive };
        if let Some((_, request)) = self.outputs.iter().find(|(l, _)| l == line) {
            return request.set_value(line.number, value).map_err(|e| Self::explain(line, &e));
        }
        let request = Self::builder(line).as_output(value).request().map_err(|e| Self::explain(line, &e))?;
        self.outputs.push((line.clone(), request));
        Ok(())
    }
}

/// Lines that are files in a folder, named `CHIP-NUMBER` and holding the
/// physical level, `0` or `1`: for trying tools out where there is no chip.
#[derive(Debug)]
pub struct FakeChip {
    folder: PathBuf,
}

impl FakeChip {
    /// Lines in `folder`, which must exist. A line without a file is low.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.into() }
    }

    fn file(&self, line: &Line) -> PathBuf {
        let chip = line.chip.file_name().unwrap_or_default().to_string_lossy();
        self.folder.join(format!("{chip}-{}", line.number))
    }
}

impl Chip for FakeChip {
    fn read(&mut self, line: &Line) -> Result<bool, String> {
        let file = self.file(line);
        match std::fs::read_to_string(&file) {
            Ok(text) => Ok((text.trim() == "1") != line.active_low),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Ok((line.bias == Bias::PullUp) != line.active_low)
            }
            Err(e) => Err(format!("{}: {e}", file.display())),
        }
    }

    fn write(&mut self, line: &Line, active: bool) -> Result<(), String> {
        let file = self.file(line);
        let level = if active != line.active_low { "1\n" } else { "0\n" };
        std::fs::write(&file, level).map_err(|e| format!("{}: {e}", file.display()))
    }
}

/// How to treat lines.
#[derive(Debug)]
pub struct Gpio {
    op: Op,
    lines: Vec<(String, Line)>,
    line: Template,
    value: Option<Template>,
    high: Vec<String>,
    low: Vec<String>,
}

impl Gpio {
    pub(crate) fn check(raw: Raw, c: &mut Check<'_>) -> Result<Self, String> {
        let full = |line: RawLine| match line {
            RawLine::Number(line) => RawFull { line, active_low: false, bias: Bias::AsIs },
            RawLine::Full(full) => full,
        };
        let lines = raw.lines.into_iter().map(|(name, line)| {
            let RawFull { line, active_low, bias } = full(line);
            (name, Line { chip: raw.chip.clone(), number: line, active_low, bias })
        });
        let lines: Vec<(String, Line)> = lines.collect();
        let line = match (&raw.line, lines.as_slice()) {
            (_, []) => return Err("\"lines\" names no line: lines = { lamp = 17 }".into()),
            (Some(source), _) => c.whole(source)?,
            (None, [(only, _)]) => c.whole(&only.replace('{', "{{").replace('}', "}}"))?,
            (None, _) => return Err("which of the lines: line = \"{line}\" takes it from an argument".into()),
        };
        if line.is_fixed() {
            pick(&lines, &line.render_whole(&Value::Null, Escape::Plain)?)?;
        }
        if (raw.op == Op::Write) != raw.value.is_some() {
            return Err("\"value\" belongs to op = \"write\", which needs it: value = \"{value}\"".into());
        }
        let value = raw.value.map(|v| c.whole(&v)).transpose()?;
        if let Some(both) = raw.high.iter().find(|h| raw.low.contains(h)) {
            return Err(format!("{both:?} is both high and low"));
        }
        Ok(Self { op: raw.op, lines, line, value, high: raw.high, low: raw.low })
    }

    /// The chips that it needs.
    pub(crate) fn chips(&self) -> impl Iterator<Item = &Path> {
        self.lines.iter().map(|(_, line)| line.chip.as_path())
    }

    pub(crate) fn prepare(&self, arguments: &Value) -> Result<Switch<'_>, String> {
        let name = self.line.render_whole(arguments, Escape::Plain)?;
        let line = pick(&self.lines, &name)?;
        let active = match &self.value {
            Some(template) => Some(self.level(&template.render_whole(arguments, Escape::Plain)?)?),
            None => None,
        };
        Ok(Switch { gpio: self, name, line, active })
    }

    /// What a word means for a line.
    fn level(&self, word: &str) -> Result<bool, String> {
        let named = |names: &[String]| names.iter().any(|n| n.eq_ignore_ascii_case(word));
        match word.to_ascii_lowercase().as_str() {
            _ if named(&self.high) => Ok(true),
            _ if named(&self.low) => Ok(false),
            "true" | "1" | "on" | "high" => Ok(true),
            "false" | "0" | "off" | "low" => Ok(false),
            _ => Err(format!("{word:?} is no level: on or off")),
        }
    }
}

fn pick<'l>(lines: &'l [(String, Line)], name: &str) -> Result<&'l Line, String> {
    lines.iter().find(|(n, _)| n == name).map(|(_, line)| line).ok_or_else(|| {
        let names: Vec<&str> = lines.iter().map(|(n, _)| n.as_str()).collect();
        format!("there is no line {name:?}: there are {}", names.join(", "))
    })
}

/// A line about to be treated.
pub(crate) struct Switch<'a> {
    gpio: &'a Gpio,
    name: String,
    line: &'a Line,
    active: Option<bool>,
}

impl Switch<'_> {
    fn word(&self, active: bool) -> &str {
        let (names, other) = if active { (&self.gpio.high, "on") } else { (&self.gpio.low, "off") };
        names.first().map_or(other, String::as_str)
    }
}

impl Prepared for Switch<'_> {
    fn describe(&self) -> String {
        let at = format!("{} (line {} of {})", self.name, self.line.number, self.line.chip.display());
        match self.active {
            Some(active) => format!("set {at} to {}", self.word(active)),
            None => format!("read {at}"),
        }
    }

    fn run(&self, room: &Room<'_>) -> Done {
        let mut chip = room.chips.0.lock().unwrap_or_else(PoisonError::into_inner);
        let level = match (self.gpio.op, self.active) {
            (Op::Write, Some(active)) => chip.write(self.line, active).map(|()| active),
            _ => chip.read(self.line),
        };
        level.map(|active| format!("{} is {}", self.name, self.word(active))).into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use super::*;

    fn bench() -> Bench {
        let mut bench = Bench::new(r#"{"line":{"type":"string","default":"lamp"},"value":{"default":true}}"#);
        bench.chips = Chips::new(Box::new(FakeChip::new(bench.folder.path())));
        bench
    }

    fn switch(bench: &Bench, toml: &str, arguments: &str) -> Done {
        let gpio = bench.check(toml, Gpio::check).unwrap();
        match gpio.prepare(&Value::parse(arguments).unwrap()) {
            Ok(switch) => bench.run(&switch),
            Err(why) => Done::failed(why),
        }
    }

    const LINES: &str = "lines = { lamp = 17, door = { line = 4, active_low = true, bias = \"pull-up\" } }\n";

    #[test]
    fn lines_are_set_and_read() {
        let bench = bench();
        let write = format!("op = \"write\"\nline = \"{{line}}\"\nvalue = \"{{value}}\"\n{LINES}");
        let read = format!("op = \"read\"\nline = \"{{line}}\"\n{LINES}");
        assert_eq!(switch(&bench, &write, r#"{"line":"lamp","value":true}"#), Done::ok("lamp is on"));
        let level = |file: &str| std::fs::read_to_string(bench.folder.path().join(file)).unwrap();
        assert_eq!(level("gpiochip0-17"), "1\n");
        assert_eq!(switch(&bench, &read, r#"{"line":"lamp"}"#), Done::ok("lamp is on"));
        assert_eq!(
            switch(&bench, &read, r#"{"line":"door"}"#),
            Done::ok("door is off"),
            "pulled up, active low"
        );
        assert_eq!(switch(&bench, &write, r#"{"line":"door","value":"on"}"#), Done::ok("door is on"));
        assert_eq!(level("gpiochip0-4"), "0\n");
        assert!(!switch(&bench, &write, r#"{"line":"17","value":1}"#).ok, "only by name");
        assert!(switch(&bench, &write, r#"{"line":"lamp","value":7}"#).content.contains("no level"));
    }

    #[test]
    fn levels_have_names() {
        let bench = bench();
        let toml = "op = \"write\"\nvalue = \"{value}\"\nhigh = [\"open\"]\nlow = [\"closed\"]\nlines = { valve = 3 }";
        assert_eq!(switch(&bench, toml, r#"{"value":"Open"}"#), Done::ok("valve is open"));
        assert_eq!(switch(&bench, toml, r#"{"value":"closed"}"#), Done::ok("valve is closed"));
    }

    #[test]
    fn a_machine_without_chips_says_so() {
        let mut bench = bench();
        bench.chips = Chips::default();
        let toml = "chip = \"/dev/gpiochip97\"\nop = \"read\"\nlines = { lamp = 1 }";
        let done = switch(&bench, toml, "{}");
        assert_eq!(done, Done::failed("there is no GPIO chip /dev/gpiochip97 on this machine"));
        let toml = "chip = \"/dev/null\"\nop = \"write\"\nvalue = \"on\"\nlines = { lamp = 1 }";
        assert!(switch(&bench, toml, "{}").content.starts_with("line 1 of /dev/null: "));
    }

    #[test]
    fn mistakes_are_refused() {
        let bench = bench();
        for (toml, says) in [
            ("op = \"read\"\nlines = {}", "names no line"),
            ("op = \"read\"\nlines = { a = 1, b = 2 }", "which of the lines"),
            ("op = \"read\"\nline = \"c\"\nlines = { a = 1, b = 2 }", "there are a, b"),
            ("op = \"write\"\nlines = { a = 1 }", "\"value\" belongs"),
            ("op = \"read\"\nlines = { a = -1 }", "did not match"),
            ("op = \"write\"\nvalue = \"on\"\nhigh = [\"x\"]\nlow = [\"x\"]\nlines = { a = 1 }", "both"),
        ] {
            let error = bench.check(toml, Gpio::check).unwrap_err();
            assert!(error.contains(says), "{toml}: {error}");
        }
    }
}
