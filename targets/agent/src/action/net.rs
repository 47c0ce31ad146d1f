//! Which addresses a tool may reach. A model chooses parts of URLs, and names
//! lead where their owners like, so every address is looked at after its name
//! was resolved and before it is connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc;
use std::time::Duration;

/// What an address is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Anybody's.
    Public,
    /// This machine or the network around it.
    Private,
    /// Never a tool's: why.
    Never(&'static str),
}

/// Says what `ip` is for.
///
/// The registries are IANA's of special-purpose addresses; those that embed an
/// IPv4 address (mapped, 6to4, NAT64) count as that.
pub fn reach(ip: IpAddr) -> Reach {
    match ip {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => reach_v4(v4),
            None => reach_v6(v6),
        },
    }
}

fn reach_v4(ip: Ipv4Addr) -> Reach {
    match ip.octets() {
        [0, ..] => Reach::Never("unspecified"),
        [169, 254, ..] => Reach::Never("link-local, where clouds keep their metadata"),
        [224..=239, ..] => Reach::Never("multicast"),
        [240..=255, ..] => Reach::Never("reserved or broadcast"),
        // Alibaba's metadata, and Oracle's and Azure's own services.
        [100, 100, 100, 200] | [192, 0, 0, _] | [168, 63, 129, 16] => Reach::Never("a cloud's own service"),
        [10, ..] | [127, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Reach::Private,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Reach::Never("for documentation"),
        [198, 18..=19, ..] => Reach::Private,
        _ => Reach::Public,
    }
}

fn reach_v6(ip: Ipv6Addr) -> Reach {
    let first = ip.segments()[0];
    match first {
        _ if ip.is_unspecified() => Reach::Never("unspecified"),
        _ if ip.is_loopback() => Reach::Private,
        0xfe80..=0xfebf => Reach::Never("link-local"),
        0xff00..=0xffff => Reach::Never("multicast"),
        // Amazon's metadata is fd00:ec2::254.
        0xfd00 if ip.segments()[1] == 0x0ec2 => Reach::Never("a cloud's own service"),
        0xfc00..=0xfdff | 0xfec0..=0xfeff => Reach::Private,
        0x2000..=0x3fff if first == 0x2001 && ip.segments()[1] == 0x0db8 => Reach::Never("for documentation"),
        // Teredo hides an IPv4 address that would have to be checked.
        0x2001 if ip.segments()[1] == 0 => Reach::Never("a tunnel"),
        0x2000..=0x3fff => Reach::Public,
        _ => Reach::Never("reserved"),
    }
}

/// The IPv4 address within an IPv6 address, if it stands for one.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = ip.segments();
    let v4 = |high: u16, low: u16| Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)));
    match s {
        [0, 0, 0, 0, 0, 0xffff, high, low] => v4(high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => v4(high, low),
        [0, 0, 0, 0, 0xffff, 0, high, low] => v4(high, low),
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

/// Why an address is not connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not for tools.
    Never {
        /// The address.
        ip: IpAddr,
        /// What it is.
        why: &'static str,
    },
    /// It is private and the tool may not go there.
    Private(IpAddr),
    /// The name leads nowhere.
    Unknown(String),
    /// Nobody answered in time.
    Slow,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never { ip, why } => write!(f, "refused: {ip} is {why}"),
            Self::Private(ip) => write!(
                f,
                "refused: {ip} is this machine's or its network's; the tool needs allow_private = true to go there"
            ),
            Self::Unknown(why) => write!(f, "the host's name cannot be resolved: {why}"),
            Self::Slow => f.write_str("the host's name was not resolved in time"),
        }
    }
}

impl std::error::Error for Refusal {}

/// Checks every one of `addresses`: a name that leads to one bad one is not
/// followed at all.
pub(crate) fn check(addresses: &[SocketAddr], private: bool) -> Result<(), Refusal> {
    for ip in addresses.iter().map(SocketAddr::ip) {
        match reach(ip) {
            Reach::Never(why) => return Err(Refusal::Never { ip, why }),
            Reach::Private if !private => return Err(Refusal::Private(ip)),
            _ => {}
        }
    }
    Ok(())
}

/// Looks a name up and checks what it leads to.
pub(crate) fn resolve(
    host: &str,
    port: u16,
    private: bool,
    within: Duration,
) -> Result<Vec<SocketAddr>, Refusal> {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let addresses: Vec<SocketAddr> = if let Ok(ip) = host.parse::<IpAddr>() {
        vec![SocketAddr::new(ip, port)]
    } else {
        // The system's lookup knows no time limit; it ends by its own.
        let (tell, told) = mpsc::sync_channel(1);
        let look = move || drop(tell.send((host.as_str(), port).to_socket_addrs().map(Vec::from_iter)));
        let thread = std::thread::Builder::new().name("resolver".into()).spawn(look);
        thread.map_err(|e| Refusal::Unknown(e.to_string()))?;
        match told.recv_timeout(within) {
            Ok(found) => found.map_err(|e| Refusal::Unknown(e.to_string()))?,
            Err(_) => return Err(Refusal::Slow),
        }
    };
    if addresses.is_empty() {
        return Err(Refusal::Unknown("it has no address".into()));
    }
    check(&addresses, private)?;
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        for (ip, expected) in [
            ("8.8.8.8", 'p'),
            ("2606:4700::1111", 'p'),
            ("127.0.0.1", 'h'),
            ("127.9.9.9", 'h'),
            ("10.1.2.3", 'h'),
            ("172.16.0.1", 'h'),
            ("172.32.0.1", 'p'),
            ("192.168.1.1", 'h'),
            ("100.64.0.1", 'h'),
            ("::1", 'h'),
            ("fd12::1", 'h'),
            ("::ffff:127.0.0.1", 'h'),
            ("64:ff9b::10.0.0.1", 'h'),
            ("2002:7f00:1::", 'h'),
            ("169.254.169.254", 'n'),
            ("169.254.0.1", 'n'),
            ("::ffff:169.254.169.254", 'n'),
            ("::169.254.169.254", 'n'),
            ("64:ff9b::a9fe:a9fe", 'n'),
            ("2002:a9fe:a9fe::1", 'n'),
            ("fe80::1", 'n'),
            ("fd00:ec2::254", 'n'),
            ("100.100.100.200", 'n'),
            ("168.63.129.16", 'n'),
            ("0.0.0.0", 'n'),
            ("::", 'n'),
            ("224.0.0.1", 'n'),
            ("255.255.255.255", 'n'),
            ("ff02::1", 'n'),
            ("2001::1", 'n'),
        ] {
            let got = match reach(ip.parse().unwrap()) {
                Reach::Public => 'p',
                Reach::Private => 'h',
                Reach::Never(_) => 'n',
            };
            assert_eq!(got, expected, "{ip}");
        }
    }

    #[test]
    fn names_are_checked_by_where_they_lead() {
        let limit = Duration::from_secs(5);
        assert!(matches!(resolve("localhost", 80, false, limit), Err(Refusal::Private(_))));
        assert!(resolve("localhost", 80, true, limit).is_ok());
        assert!(matches!(resolve("[::ffff:169.254.169.254]", 80, true, limit), Err(Refusal::Never { .. })));
        // Other ways to write 127.0.0.1 and 169.254.169.254 that a resolver may know.
        for odd in ["0x7f.1", "2130706433", "0177.0.0.1", "127.1", "0xa9fea9fe"] {
            assert!(resolve(odd, 80, false, limit).is_err(), "{odd}");
        }
        // One bad address among good ones.
        let mixed = ["1.1.1.1:80", "169.254.169.254:80"].map(|a| a.parse().unwrap());
        assert!(check(&mixed, true).is_err());
    }
}
