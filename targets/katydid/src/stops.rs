//! Texts that end an answer, found while it is being printed.

/// Text that might be the beginning of a stop is held back.
pub(crate) struct Stops<'s> {
    stops: &'s [&'s str],
    held: String,
    shown: String,
}

impl<'s> Stops<'s> {
    pub(crate) fn new(stops: &'s [&'s str]) -> Self {
        Self { stops, held: String::new(), shown: String::new() }
    }

    /// Takes text; gives what may be shown, and whether that is all there is.
    /// Where text is not `free` nothing stops it.
    pub(crate) fn push(&mut self, text: &str, free: bool) -> (&str, bool) {
        self.held.push_str(text);
        self.shown.clear();
        if !free {
            self.shown.push_str(&self.held);
            self.held.clear();
            return (&self.shown, false);
        }
        let found = self.stops.iter().filter_map(|stop| self.held.find(stop)).min();
        let keep = found.unwrap_or_else(|| self.held.len() - self.begun());
        self.shown.push_str(&self.held[..keep]);
        self.held.drain(..keep);
        if found.is_some() {
            self.held.clear();
        }
        (&self.shown, found.is_some())
    }

    /// What was held back and turned out to be no stop.
    pub(crate) fn held(&self) -> &str {
        &self.held
    }

    /// Bytes at the end that a stop may begin with.
    fn begun(&self) -> usize {
        let ends = |stop: &&str| {
            let most = stop.len().saturating_sub(1).min(self.held.len());
            (1..=most).rev().find(|&n| self.held.as_bytes().ends_with(&stop.as_bytes()[..n])).unwrap_or(0)
        };
        self.stops.iter().map(ends).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(pieces: &[&str], free: bool) -> (String, bool) {
        let mut stops = Stops::new(&["</s>", "<|é|>"]);
        let mut all = String::new();
        for piece in pieces {
            let (text, end) = stops.push(piece, free);
            all.push_str(text);
            if end {
                assert!(stops.held().is_empty());
                return (all, true);
            }
        }
        (all + stops.held(), false)
    }

    #[test]
    fn stops_are_found_across_pieces_and_never_shown() {
        assert_eq!(shown(&["ab<", "/s", ">c"], true), ("ab".into(), true));
        assert_eq!(shown(&["ab</", "s", "x<"], true), ("ab</sx<".into(), false));
        assert_eq!(shown(&["<|", "é", "|>", "</s>"], true), (String::new(), true));
        assert_eq!(shown(&["a<|é", "é|>"], true), ("a<|éé|>".into(), false));
        assert_eq!(shown(&["a</s>b"], false), ("a</s>b".into(), false));
    }
}
