//! Dates of the Gregorian calendar from seconds since 1970, and where local time
//! stands.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// A date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date {
    days: i64,
    seconds: i64,
}

impl Date {
    /// The one `seconds` after the beginning of 1970.
    pub(crate) fn at(seconds: i64) -> Self {
        Self { days: seconds.div_euclid(86400), seconds: seconds.rem_euclid(86400) }
    }

    pub(crate) fn weekday(self) -> &'static str {
        const NAMES: [&str; 7] =
            ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
        NAMES[self.days.rem_euclid(7) as usize]
    }

    /// Year, month and day.
    ///
    /// Years are counted from March, so that the day that comes and goes is the
    /// last; 400 of them have 146,097 days.
    fn ymd(self) -> (i64, i64, i64) {
        // Days since 1 March 0000.
        let days = self.days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let of_year = day - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let of_month = of_year - (153 * month + 2) / 5 + 1;
        let (month, late) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        (era * 400 + year + late, month, of_month)
    }
}

/// `2024-02-29 12:34:56`.
impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((y, m, d), s) = (self.ymd(), self.seconds);
        write!(f, "{y:04}-{m:02}-{d:02} {:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    }
}

/// Now, as RFC 3339 has it, to the millisecond.
pub(crate) fn stamp() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let date = Date::at(now.as_secs() as i64).to_string().replace(' ', "T");
    format!("{date}.{:03}Z", now.subsec_millis())
}

/// Seconds that local time is ahead of UTC at a moment; 0 where the C library
/// does not know.
pub(crate) fn local_offset(seconds: i64) -> i64 {
    use nix::libc;
    // 32 bits on some machines.
    #[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion)]
    let time = libc::time_t::try_from(seconds).unwrap_or(0);
    // SAFETY: all of `tm` is numbers and a pointer, for which zero is a value.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to our own variables for the time of the call.
    let found = unsafe { libc::localtime_r(&time, &mut tm) };
    #[allow(clippy::useless_conversion)] // 32 bits on some machines
    let offset = i64::from(tm.tm_gmtoff);
    if found.is_null() { 0 } else { offset }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        for (seconds, text, weekday) in [
            (0, "1970-01-01 00:00:00", "Thursday"),
            (951_782_400, "2000-02-29 00:00:00", "Tuesday"),
            (1_709_210_096, "2024-02-29 12:34:56", "Thursday"),
            (4_107_542_399, "2100-02-28 23:59:59", "Sunday"),
            (4_107_542_400, "2100-03-01 00:00:00", "Monday"),
            (-1, "1969-12-31 23:59:59", "Wednesday"),
        ] {
            let date = Date::at(seconds);
            assert_eq!((date.to_string().as_str(), date.weekday()), (text, weekday));
        }
        assert!(stamp().ends_with('Z') && stamp().len() == 24);
        assert!(local_offset(0).abs() <= 14 * 3600);
    }
}
