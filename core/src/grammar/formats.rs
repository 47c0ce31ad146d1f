//! Formats of strings, as patterns.
//!
//! Each accepts strings of its format only, though not always all of them: no
//! leap seconds, no quoted mail boxes, no addresses beyond what devices meet.

/// A name and the pattern of its strings.
const FORMATS: [(&str, &str); 10] = [
    ("date", DATE),
    ("time", TIME),
    ("date-time", DATE_TIME),
    ("uuid", "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
    ("ipv4", "^((25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)\\.){3}(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)$"),
    ("ipv6", IPV6),
    ("hostname", "^[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,15})?(\\.[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,15})?){0,3}$"),
    (
        "email",
        "^[A-Za-z0-9_+-]{1,20}(\\.[A-Za-z0-9_+-]{1,20})?@[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,15})?(\\.[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,15})?){1,3}$",
    ),
    (
        "uri",
        "^[a-z][a-z0-9]{1,10}://[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,15})?(\\.[a-z][a-z0-9]{0,15}(-[a-z0-9]{1,15})?){0,3}(:[1-9]\\d{0,3})?(/[A-Za-z0-9._~-]*)*(\\?[A-Za-z0-9._~=&-]*)?(#[A-Za-z0-9._~-]*)?$",
    ),
    (
        "duration",
        "^P(\\d{1,4}D(T\\d{1,4}(H(\\d{1,4}M(\\d{1,4}S)?)?|M(\\d{1,4}S)?|S))?|\\d{1,4}W|T\\d{1,4}(H(\\d{1,4}M(\\d{1,4}S)?)?|M(\\d{1,4}S)?|S))$",
    ),
];

/// The names, for people.
pub(super) const NAMES: &str = "date, time, date-time, uuid, ipv4, ipv6, hostname, email, uri, duration";

/// How many there are.
pub(super) const COUNT: usize = FORMATS.len();

macro_rules! day {
    () => {
        "((\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8])))|(([02468][048]|[13579][26])00|\\d\\d(0[48]|[2468][048]|[13579][26]))-02-29)"
    };
}

macro_rules! clock {
    () => {
        "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
    };
}

const DATE: &str = concat!("^", day!(), "$");
const TIME: &str = concat!("^", clock!(), "$");
const DATE_TIME: &str = concat!("^", day!(), "T", clock!(), "$");

/// Without embedded IPv4.
const IPV6: &str = "^(([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}|([0-9a-f]{1,4}:){1,2}(:[0-9a-f]{1,4}){1,4}|([0-9a-f]{1,4}:){3,4}(:[0-9a-f]{1,4}){1,2}|([0-9a-f]{1,4}:){1,6}:|::([0-9a-f]{1,4}(:[0-9a-f]{1,4}){0,5})?)$";

/// The number of the format called `name`.
pub(super) fn find(name: impl Fn(&str) -> bool) -> Option<usize> {
    FORMATS.iter().position(|f| name(f.0))
}

/// The pattern of a format.
pub(super) fn pattern(format: usize) -> &'static str {
    FORMATS.get(format).map_or("", |f| f.1)
}
