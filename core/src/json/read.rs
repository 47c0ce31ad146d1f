//! Whole values, and what lists, objects and strings hold.

use super::{NotJson, Scan};

/// The first byte from `at` on that is no white space.
pub(crate) fn skip(text: &str, at: usize) -> usize {
    let mut scan = Scan::new(text, at);
    scan.space();
    scan.at
}

/// Checks the value that begins at `at`, and says where it ends.
pub(crate) fn value(text: &str, at: usize) -> Result<usize, NotJson> {
    let mut scan = Scan::new(text, at);
    scan.walk(&mut ())?;
    Ok(scan.at)
}

/// Checks that `text` is one value and nothing else; gives it without the white
/// space around.
pub(crate) fn whole(text: &str) -> Result<&str, NotJson> {
    let mut scan = Scan::new(text, 0);
    let value = scan.value()?;
    scan.end().map(|()| value)
}

/// Like [`whole`], for objects.
pub(crate) fn object(text: &str) -> Result<&str, NotJson> {
    let byte = skip(text, 0);
    if text.as_bytes().get(byte) == Some(&b'{') {
        whole(text)
    } else {
        Err(NotJson { byte, what: "no { begins it" })
    }
}

/// Keys and values of a checked object. None of what is no object.
pub(crate) fn members(object: &str) -> Members<'_> {
    Members(within(object, b'{'))
}

/// Values of a checked list. None of what is no list.
pub(crate) fn elements(list: &str) -> Elements<'_> {
    Elements(within(list, b'['))
}

/// The place after the bracket that begins `text`, or after all of it.
fn within(text: &str, open: u8) -> Scan<'_> {
    let here = text.as_bytes().first() == Some(&open);
    Scan::new(text, if here { 1 } else { text.len() })
}

/// See [`members`].
#[derive(Clone)]
pub(crate) struct Members<'t>(Scan<'t>);

impl<'t> Iterator for Members<'t> {
    type Item = (Text<'t>, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.space();
        self.0.take(b',');
        // The text was checked: what is no key is the end.
        let key = self.0.key().ok()?;
        Some((Text::of(key)?, self.0.value().ok()?))
    }
}

/// See [`elements`].
#[derive(Clone)]
pub(crate) struct Elements<'t>(Scan<'t>);

impl<'t> Iterator for Elements<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.space();
        self.0.take(b',');
        self.0.value().ok()
    }
}

/// A string between its quotes, its escapes not yet read.
#[derive(Clone, Copy)]
pub(crate) struct Text<'t>(&'t str);

impl<'t> Text<'t> {
    /// The string that a value is.
    pub(crate) fn of(value: &'t str) -> Option<Self> {
        value.strip_prefix('"')?.strip_suffix('"').map(Self)
    }

    /// What stands between quotes.
    pub(crate) fn plain(text: &'t str) -> Self {
        Self(text)
    }

    /// The text as it stands between its quotes.
    pub(crate) fn raw(self) -> &'t str {
        self.0
    }

    /// Its characters. Halves of surrogate pairs read as U+FFFD.
    pub(crate) fn chars(self) -> impl Iterator<Item = char> + Clone + use<'t> {
        let mut rest = self.0.chars();
        core::iter::from_fn(move || {
            let c = rest.next()?;
            if c != '\\' {
                return Some(c);
            }
            Some(match rest.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let (c, used) = unicode(rest.as_str());
                    rest = rest.as_str().get(used..).unwrap_or("").chars();
                    c
                }
                other => other,
            })
        })
    }

    pub(crate) fn is(self, other: &str) -> bool {
        self.chars().eq(other.chars())
    }

    pub(crate) fn same(self, other: Text<'_>) -> bool {
        // Where nothing is escaped, as in nearly all texts, bytes tell.
        let plain = |text: &str| !text.as_bytes().contains(&b'\\');
        self.0 == other.0 || !(plain(self.0) && plain(other.0)) && self.chars().eq(other.chars())
    }
}

/// The character after `\u`, a pair of surrogates included, and its bytes there.
fn unicode(rest: &str) -> (char, usize) {
    let hex =
        |at: usize| rest.get(at..at + 4).and_then(|d| u32::from_str_radix(d, 16).ok()).unwrap_or(0xfffd);
    let high = hex(0);
    if (0xd800..0xdc00).contains(&high) && rest.get(4..6) == Some("\\u") {
        let low = hex(6);
        if (0xdc00..0xe000).contains(&low) {
            let code = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
            return (char::from_u32(code).unwrap_or('\u{fffd}'), 10);
        }
    }
    (char::from_u32(high).unwrap_or('\u{fffd}'), 4)
}

#[cfg(test)]
mod tests {
    use super::super::{quote, spaced};
    use super::*;
    use proptest::prelude::*;
    use std::string::String;
    use std::vec::Vec;

    fn written(
        text: &str,
        write: impl Fn(&str, &mut dyn FnMut(&str) -> core::fmt::Result) -> core::fmt::Result,
    ) -> String {
        let mut out = String::new();
        write(text, &mut |s| {
            out.push_str(s);
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn strings_are_read_and_written() {
        let chars = |text| Text::of(text).unwrap().chars().collect::<String>();
        assert_eq!(chars("\"a\\u00e9\\ud83d\\ude00\\ud800x\\n\\/\""), "aé😀\u{fffd}x\n/");
        assert!(Text::of("\"n\\u0061me\"").unwrap().is("name") && Text::of("name").is_none());
        assert_eq!(written("a\"\\\n\u{1}é", quote), "\"a\\\"\\\\\\n\\u0001é\"");
        assert_eq!(written(" {\"a,b\":[1 ,2],\n\"c\" : \"\"} ", spaced), "{\"a,b\": [1, 2], \"c\": \"\"}");
        let all: Vec<_> = members("{ \"a\" : [1, 2] , \"b\":{}}").map(|(k, v)| (k.raw(), v)).collect();
        assert_eq!(all, [("a", "[1, 2]"), ("b", "{}")]);
        assert!(elements("[ 1 ,\"]\", [ ] ]").eq(["1", "\"]\"", "[ ]"]));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[\\[\\]{},:\"\\\\ue0-2 xé\n]{0,40}", at in 0usize..50) {
            let _ = value(&text, at);
            let _ = members(&text).count() + elements(&text).count() + Text::plain(&text).chars().count();
            let out = written(&text, spaced);
            if whole(&text).is_ok() {
                prop_assert!(whole(&out).is_ok());
            }
        }

        #[test]
        fn strings_come_back(text in "\\PC*|[\0-\u{20}\"\\\\]*") {
            let out = written(&text, quote);
            prop_assert_eq!(whole(&out), Ok(&*out));
            prop_assert_eq!(Text::of(&out).unwrap().chars().collect::<String>(), text);
        }
    }
}
