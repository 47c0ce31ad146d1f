//! Values that must not be seen: where they come from, and how they are kept out
//! of whatever is shown, logged or given to a model.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What stands where a secret stood.
pub const MASK: &str = "***";

/// Shorter ones would be found, and so masked, in any text.
const LEAST: usize = 4;

/// Most bytes of a secret.
const MOST: u64 = 8192;

/// A text that shows as `***`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself, for the one place that sends it.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// Takes a value that `origin` names, as `the variable TOKEN`.
    pub(crate) fn new(value: String, origin: &str) -> Result<Self, String> {
        if value.len() < LEAST {
            return Err(format!("{origin} holds fewer than {LEAST} bytes: too few to be kept out of logs"));
        }
        if value.bytes().any(|b| b < 32 || b == 127) {
            return Err(format!("{origin} holds a control character: is it the right one?"));
        }
        Ok(Self(value))
    }

    /// The value of an environment variable.
    pub(crate) fn from_env(name: &str) -> Result<Self, String> {
        match std::env::var(name) {
            Ok(value) => Self::new(value, &format!("the variable {name}")),
            Err(std::env::VarError::NotPresent) => {
                Err(format!("the variable {name} is not set: set it before starting the agent"))
            }
            Err(std::env::VarError::NotUnicode(_)) => Err(format!("the variable {name} is not UTF-8")),
        }
    }

    /// The content of a file, without the line end that editors leave.
    pub(crate) fn from_file(path: &Path) -> Result<Self, String> {
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(|e| format!("cannot open {}: {e}", path.display()))?;
        file.take(MOST + 1)
            .read_to_string(&mut text)
            .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
        if text.len() as u64 > MOST {
            return Err(format!("{} is larger than {MOST} bytes: no secret is", path.display()));
        }
        Self::new(text.trim_end_matches(['\r', '\n']).into(), &format!("the file {}", path.display()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Where references to secrets are looked up, and all that were found.
#[derive(Debug)]
pub(crate) struct Secrets {
    /// Relative files are taken from here.
    pub(crate) folder: PathBuf,
    pub(crate) found: Vec<Secret>,
    /// Environment variables that were asked for.
    pub(crate) variables: Vec<String>,
    /// Files that were named, for secrets and for other things.
    pub(crate) files: Vec<PathBuf>,
}

impl Secrets {
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.into(), found: Vec::new(), variables: Vec::new(), files: Vec::new() }
    }

    pub(crate) fn env(&mut self, name: &str) -> Result<Secret, String> {
        let secret = Secret::from_env(name)?;
        self.variables.push(name.into());
        self.found.push(secret.clone());
        Ok(secret)
    }

    pub(crate) fn file(&mut self, path: &str) -> Result<Secret, String> {
        let path = self.named(path);
        let secret = Secret::from_file(&path)?;
        self.found.push(secret.clone());
        Ok(secret)
    }

    /// Where a file lies, which is written down.
    pub(crate) fn named(&mut self, path: impl AsRef<Path>) -> PathBuf {
        let path = self.folder.join(path);
        self.files.push(path.clone());
        path
    }

    /// Looks up `env:NAME` or `file:PATH`, what stands between `${` and `}`.
    pub(crate) fn reference(&mut self, text: &str) -> Result<Secret, String> {
        match text.split_once(':') {
            Some(("env", name)) => self.env(name),
            Some(("file", path)) => self.file(path),
            _ => Err(format!("${{{text}}}: write ${{env:NAME}} or ${{file:PATH}}")),
        }
    }
}

/// Masks secrets in texts.
#[derive(Clone, Default)]
pub struct Redactor {
    /// Longest first, so that one within another does not leave its rest.
    words: Vec<String>,
}

impl Redactor {
    /// Masks `secrets`, also as they appear in URLs and JSON.
    pub(crate) fn new(secrets: &[Secret]) -> Self {
        let mut words = Vec::new();
        for secret in secrets {
            let plain = secret.reveal();
            words.push(plain.to_owned());
            words.push(crate::template::percent(plain));
            if let Ok(quoted) = serde_json::to_string(plain) {
                words.push(quoted[1..quoted.len() - 1].to_owned());
            }
        }
        words.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        words.dedup();
        Self { words }
    }

    /// `text` without secrets.
    pub fn mask(&self, text: &str) -> String {
        let mut out = text.to_owned();
        for word in &self.words {
            if out.contains(word.as_str()) {
                out = out.replace(word.as_str(), MASK);
            }
        }
        out
    }

    /// Bytes of the longest secret: what must be captured beyond a cut so that
    /// no part of one is left before it.
    pub(crate) fn longest(&self) -> usize {
        self.words.first().map_or(0, String::len)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a redactor of {} texts", self.words.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_show_as_stars() {
        let secret = Secret::new("hunter2 \"x\"".into(), "x").unwrap();
        assert_eq!(format!("{secret} {secret:?} {:?}", Some(&secret)), "*** *** Some(***)");
        let redactor = Redactor::new(&[secret, Secret::new("hunter".into(), "y").unwrap()]);
        let text = r#"a hunter2 "x" b hunter2%20%22x%22 c hunter2 \"x\" d hunter e"#;
        assert_eq!(redactor.mask(text), "a *** b *** c *** d *** e");
        assert!(!format!("{redactor:?}").contains("hunter"));
    }

    #[test]
    fn references_lead_to_variables_and_files() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("token"), "from-a-file\n").unwrap();
        std::fs::write(dir.path().join("short"), "abc").unwrap();
        std::fs::write(dir.path().join("large"), "x".repeat(9000)).unwrap();
        std::fs::write(dir.path().join("odd"), "ab\ncdef").unwrap();
        let mut secrets = Secrets::new(dir.path());
        assert_eq!(secrets.reference("file:token").unwrap().reveal(), "from-a-file");
        for (reference, says) in [
            ("file:none", "cannot open"),
            ("file:short", "fewer than 4"),
            ("file:large", "larger than"),
            ("file:odd", "control character"),
            ("env:KATYDID_NOT_SET", "not set"),
            ("TOKEN", "write ${env:NAME}"),
        ] {
            let error = secrets.reference(reference).unwrap_err();
            assert!(error.contains(says), "{reference}: {error}");
        }
        assert_eq!(secrets.found.len(), 1);
    }
}
