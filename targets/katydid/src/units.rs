//! Sizes as people write and read them.

use std::fmt;

/// A number of bytes, shown with three digits or so.
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0 as f64;
        let text = match self.0 {
            0..1_000 => format!("{} B", self.0),
            1_000..1_000_000 => format!("{:.1} kB", b / 1e3),
            1_000_000..1_000_000_000 => format!("{:.1} MB", b / 1e6),
            _ => format!("{:.2} GB", b / 1e9),
        };
        f.pad(&text)
    }
}

/// Reads a whole number from `least` to `most`, for a flag.
pub(crate) fn whole(least: usize, most: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let n = text.parse().ok().filter(|n| (least..=most).contains(n));
        n.ok_or_else(|| format!("allowed: whole numbers from {least} to {most}"))
    }
}

/// Reads a number from `least` to `most`, for a flag.
pub(crate) fn number(least: f32, most: f32) -> impl Fn(&str) -> Result<f32, String> + Clone {
    move |text| {
        // No range contains NaN.
        let n = text.parse().ok().filter(|n| (least..=most).contains(n));
        n.ok_or_else(|| format!("allowed: numbers from {least} to {most}"))
    }
}

/// Most tokens that a context can have.
pub(crate) const MOST_TOKENS: usize = i32::MAX as usize;

/// Most threads.
pub(crate) const MOST_THREADS: usize = 1024;

/// Reads `200M`, `1.5G`, `64k`, `4096`; K, M and G are powers of 1000, Ki, Mi
/// and Gi of 1024.
pub(crate) fn parse_bytes(text: &str) -> Result<u64, String> {
    let t = text.trim();
    let digits = t.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(t.len());
    let (number, unit) = t.split_at(digits);
    let number: f64 = number.parse().map_err(|_| format!("'{text}' is not a size like 200M or 1.5G"))?;
    let scale = match unit.trim().trim_end_matches(['b', 'B']).to_ascii_lowercase().as_str() {
        "" => 1.0,
        "k" => 1e3,
        "m" => 1e6,
        "g" => 1e9,
        "ki" => 1024.0,
        "mi" => 1_048_576.0,
        "gi" => 1_073_741_824.0,
        _ => return Err(format!("'{unit}' is not a unit of size: use k, M, G, Ki, Mi or Gi")),
    };
    // Saturates where nobody has that much.
    Ok((number * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_and_written() {
        assert_eq!(parse_bytes("200M"), Ok(200_000_000));
        assert_eq!(parse_bytes("1.5GiB"), Ok(1_610_612_736));
        assert_eq!(parse_bytes("64 k"), Ok(64_000));
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert!(parse_bytes("lots").is_err());
        assert!(parse_bytes("-5M").is_err());
        assert!(parse_bytes("5 miles").is_err());
        assert_eq!(Bytes(16_700_000).to_string(), "16.7 MB");
        assert_eq!(format!("{:>9}|", Bytes(999)), "    999 B|");
    }
}
