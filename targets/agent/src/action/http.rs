//! Requests to HTTP servers.
//!
//! The tool's author fixes scheme, host and port; arguments stand in the path,
//! the query and the body, encoded for each. Addresses are checked after names
//! are resolved (see [`super::net`]), redirects stay on the host and are counted,
//! and time and size are bounded.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use ureq::http::{self, Uri};
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};

use super::{Check, Done, Prepared, Room, net};
use crate::template::{Escape, Template, Tree, percent};
use crate::value::Value;

const MOST_REDIRECTS: u32 = 5;

/// Headers that would change what a request is.
const REFUSED_HEADERS: [&str; 6] =
    ["host", "content-length", "transfer-encoding", "connection", "accept-encoding", "expect"];

/// `http` as TOML has it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Raw {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    query: BTreeMap<String, String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    json: Option<Value>,
    form: Option<BTreeMap<String, String>>,
    #[serde(default)]
    allow_private: bool,
    #[serde(default)]
    redirects: u32,
    ca_file: Option<PathBuf>,
}

fn get() -> String {
    "GET".into()
}

/// What a request carries.
#[derive(Debug)]
enum Body {
    None,
    Text(Template),
    Json(Tree),
    Form(Vec<(String, Template)>),
}

/// How to ask a server.
#[derive(Debug)]
pub struct Http {
    method: http::Method,
    /// Scheme, host and port.
    origin: String,
    path: Template,
    query: Vec<(String, Template)>,
    headers: Vec<(String, Template)>,
    body: Body,
    redirects: u32,
    agent: ureq::Agent,
}

impl Http {
    pub(crate) fn check(raw: Raw, c: &mut Check<'_>) -> Result<Self, String> {
        let method = raw.method.to_ascii_uppercase();
        if !["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"].contains(&method.as_str()) {
            return Err(format!("method {:?}: one of GET, HEAD, POST, PUT, PATCH, DELETE", raw.method));
        }
        if raw.redirects > MOST_REDIRECTS {
            return Err(format!("redirects = {}: at most {MOST_REDIRECTS}", raw.redirects));
        }
        let (origin, path) = split(&raw.url)?;
        if climbs(path) {
            return Err(format!("{:?}: write the path without \".\" and \"..\"", raw.url));
        }
        let path = c.whole(path)?;
        let query = pairs(raw.query, c)?;
        let headers = pairs(raw.headers, c)?;
        headers.iter().try_for_each(|(name, _)| check_header(name))?;
        let body = Body::check(raw.body, raw.json, raw.form, c)?;
        if !matches!(body, Body::None) && matches!(method.as_str(), "GET" | "HEAD" | "DELETE") {
            return Err(format!("{method} has no body: use POST, or \"query\""));
        }
        let agent = agent(origin, raw.allow_private, raw.ca_file.map(|f| c.secrets.named(f)))?;
        let method = method.parse().map_err(|_| "a method that is none".to_owned())?;
        Ok(Self {
            method,
            origin: origin.into(),
            path,
            query,
            headers,
            body,
            redirects: raw.redirects,
            agent,
        })
    }

    pub(crate) fn prepare(&self, arguments: &Value) -> Result<Ask<'_>, String> {
        let path = self.path.render_whole(arguments, Escape::Url)?;
        if climbs(&path) {
            return Err("an argument cannot be \".\" or \"..\" in a path".into());
        }
        let mut url = format!("{}{path}", self.origin);
        let query = encode(&self.query, arguments)?;
        if !query.is_empty() {
            url.push(if path.contains('?') { '&' } else { '?' });
            url.push_str(&query);
        }
        let uri: Uri = url.parse().map_err(|e| format!("{url} is no URL: {e}"))?;
        let mut headers = Vec::new();
        for (name, template) in &self.headers {
            let Some(text) = template.render(arguments, Escape::Plain)? else { continue };
            if text.chars().any(char::is_control) {
                return Err(format!("the header {name} cannot hold control characters"));
            }
            headers.push((name.clone(), text));
        }
        let (body, kind) = match &self.body {
            Body::None => (None, ""),
            Body::Text(text) => (text.render(arguments, Escape::Plain)?, "text/plain; charset=utf-8"),
            Body::Json(tree) => (tree.render(arguments)?.map(|v| v.to_string()), "application/json"),
            Body::Form(form) => (Some(encode(form, arguments)?), "application/x-www-form-urlencoded"),
        };
        if body.is_some() && !headers.iter().any(|(n, _)| n.eq_ignore_ascii_case("content-type")) {
            headers.push(("Content-Type".into(), kind.into()));
        }
        Ok(Ask { http: self, uri, headers, body })
    }
}

impl Body {
    fn check(
        text: Option<String>,
        json: Option<Value>,
        form: Option<BTreeMap<String, String>>,
        c: &mut Check<'_>,
    ) -> Result<Self, String> {
        match (text, json, form) {
            (None, None, None) => Ok(Self::None),
            (Some(text), None, None) => Ok(Self::Text(c.template(&text)?)),
            (None, Some(value), None) => Ok(Self::Json(Tree::parse(&value, &c.names, c.secrets)?)),
            (None, None, Some(form)) => Ok(Self::Form(pairs(form, c)?)),
            _ => Err("body, json and form exclude each other".into()),
        }
    }
}

fn pairs(map: BTreeMap<String, String>, c: &mut Check<'_>) -> Result<Vec<(String, Template)>, String> {
    map.into_iter().map(|(key, source)| Ok((key, c.template(&source)?))).collect()
}

fn check_header(name: &str) -> Result<(), String> {
    if name.parse::<http::HeaderName>().is_err()
        || REFUSED_HEADERS.contains(&name.to_ascii_lowercase().as_str())
    {
        return Err(format!("the header {name:?} cannot be set"));
    }
    Ok(())
}

/// Parts a URL into its origin, which no argument may touch, and the rest.
fn split(url: &str) -> Result<(&str, &str), String> {
    let rest = url
        .strip_prefix("https://")
        .or_else(|| url.strip_prefix("http://"))
        .ok_or_else(|| format!("{url:?}: a URL begins with https:// or http://"))?;
    let at = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    if authority.is_empty() || authority.contains(['{', '}', '@', '$', ' ', '\\']) {
        return Err(format!("{url:?}: the host must be written out, without arguments, users or passwords"));
    }
    if path.contains('#') {
        return Err(format!("{url:?}: a server never sees what follows '#'"));
    }
    let origin = &url[..url.len() - path.len()];
    origin.parse::<Uri>().map_err(|e| format!("{url:?}: {e}"))?;
    if cfg!(not(feature = "tls")) && origin.starts_with("https:") {
        return Err(format!("{url:?}: this program was built without TLS"));
    }
    Ok((origin, if path.is_empty() { "/" } else { path }))
}

/// Whether a server would take part of `path` for a step up.
fn climbs(path: &str) -> bool {
    path.split(['/', '?', '\\']).any(|s| matches!(s, "." | ".."))
}

/// `a=b&c=d`; pairs whose argument is absent are left out.
fn encode(pairs: &[(String, Template)], arguments: &Value) -> Result<String, String> {
    let mut out = String::new();
    for (key, template) in pairs {
        let Some(text) = template.render(arguments, Escape::Plain)? else { continue };
        let amp = if out.is_empty() { "" } else { "&" };
        out.push_str(&format!("{amp}{}={}", percent(key), percent(&text)));
    }
    Ok(out)
}

fn agent(origin: &str, private: bool, ca_file: Option<PathBuf>) -> Result<ureq::Agent, String> {
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .http_status_as_error(false)
        .https_only(origin.starts_with("https:"))
        // Redirects are followed here, where they can be looked at.
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(16 << 10)
        .max_idle_connections(0)
        .user_agent(concat!("katydid/", env!("CARGO_PKG_VERSION")));
    #[cfg(feature = "tls")]
    let config = match ca_file {
        Some(path) => config.tls_config(trust(&path)?),
        None => config,
    };
    #[cfg(not(feature = "tls"))]
    drop(ca_file);
    Ok(ureq::Agent::with_parts(config.build(), DefaultConnector::default(), Checked { private }))
}

/// Trusts the certificates of one file and no others.
#[cfg(feature = "tls")]
fn trust(path: &std::path::Path) -> Result<ureq::tls::TlsConfig, String> {
    use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
    let pem = std::fs::read(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(c) = item.map_err(|e| format!("{}: {e}", path.display()))? {
            certificates.push(c);
        }
    }
    if certificates.is_empty() {
        return Err(format!("{} holds no certificate", path.display()));
    }
    Ok(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build())
}

/// Resolves names to addresses that may be connected to.
#[derive(Debug)]
struct Checked {
    private: bool,
}

impl Resolver for Checked {
    fn resolve(
        &self,
        uri: &Uri,
        _: &ureq::config::Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().ok_or(ureq::Error::HostNotFound)?;
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let found = net::resolve(host, port, self.private, *timeout.after)
            .map_err(|e| ureq::Error::Io(std::io::Error::other(e)))?;
        let mut out = self.empty();
        found.into_iter().take(16).for_each(|address| out.push(address));
        Ok(out)
    }
}

/// A request about to be sent.
pub(crate) struct Ask<'a> {
    http: &'a Http,
    uri: Uri,
    headers: Vec<(String, String)>,
    body: Option<String>,
}

impl Prepared for Ask<'_> {
    fn describe(&self) -> String {
        let body = self.body.as_ref().map(|b| format!(" with {b}")).unwrap_or_default();
        format!("{} {}{body}", self.http.method, self.uri)
    }

    fn run(&self, room: &Room<'_>) -> Done {
        self.follow(room).unwrap_or_else(|e| Done::failed(explain(&e, room.timeout)))
    }
}

impl Ask<'_> {
    /// Sends, and goes where redirects lead as far as they may.
    fn follow(&self, room: &Room<'_>) -> Result<Done, ureq::Error> {
        let mut uri = self.uri.clone();
        for _ in 0..=self.http.redirects {
            let mut response = self.send(&uri, room.left())?;
            let to = response.headers().get("location").and_then(|v| v.to_str().ok());
            let Some(to) = to.filter(|_| response.status().is_redirection()) else {
                return read(&mut response, room.capture);
            };
            if self.http.redirects == 0 || self.body.is_some() {
                let status = response.status();
                return Ok(Done::failed(format!(
                    "{status}: the server redirects to {to}; the tool does not follow"
                )));
            }
            match next(&uri, to) {
                Some(next) => uri = next,
                None => {
                    return Ok(Done::failed(format!("refused: the server redirects to another host, {to}")));
                }
            }
        }
        Ok(Done::failed(format!("more than {} redirects", self.http.redirects)))
    }

    fn send(&self, uri: &Uri, within: Duration) -> Result<http::Response<ureq::Body>, ureq::Error> {
        if within.is_zero() {
            return Err(ureq::Error::Timeout(ureq::Timeout::Global));
        }
        let mut request = http::Request::builder().method(&self.http.method).uri(uri);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let agent = &self.http.agent;
        match &self.body {
            Some(body) => {
                let request =
                    agent.configure_request(request.body(body.as_str())?).timeout_global(Some(within));
                agent.run(request.build())
            }
            None => {
                let request = agent.configure_request(request.body(())?).timeout_global(Some(within));
                agent.run(request.build())
            }
        }
    }
}

/// Where a redirect leads if that is the same host, which may be asked for
/// over TLS instead.
fn next(from: &Uri, to: &str) -> Option<Uri> {
    let secure = |uri: &Uri| uri.scheme_str() == Some("https");
    if to.starts_with('/') && !to.starts_with("//") {
        return format!("{}://{}{to}", from.scheme_str()?, from.authority()?).parse().ok();
    }
    let uri: Uri = to.parse().ok()?;
    let same = uri.scheme() == from.scheme() && uri.authority() == from.authority();
    let upgrade = secure(&uri) && !secure(from) && uri.authority()?.as_str() == from.host()?;
    (same || upgrade).then_some(uri)
}

/// Reads an answer, as much of it as is wanted.
fn read(response: &mut http::Response<ureq::Body>, most: usize) -> Result<Done, ureq::Error> {
    let status = response.status();
    let length = response.body().content_length();
    let mut bytes = Vec::new();
    // One more tells whether there was more.
    response.body_mut().as_reader().take(most as u64 + 1).read_to_end(&mut bytes)?;
    let more = (bytes.len() > most) as u64;
    bytes.truncate(most);
    let dropped = match length {
        Some(length) if more > 0 => length.saturating_sub(most as u64),
        _ => more,
    };
    let text = String::from_utf8_lossy(&bytes);
    let ok = status.is_success();
    let content = if ok { text.into_owned() } else { format!("{status}\n{text}").trim_end().to_owned() };
    Ok(Done { ok, content, dropped })
}

fn explain(error: &ureq::Error, timeout: Duration) -> String {
    if let ureq::Error::Io(io) = error {
        if let Some(refusal) = io.get_ref().and_then(|e| e.downcast_ref::<net::Refusal>()) {
            return refusal.to_string();
        }
        let timed_out = io.get_ref().and_then(|e| e.downcast_ref::<ureq::Error>());
        if let Some(inner @ ureq::Error::Timeout(_)) = timed_out {
            return explain(inner, timeout);
        }
    }
    match error {
        ureq::Error::Timeout(_) => format!("no full answer within {} s", timeout.as_secs_f32()),
        e => format!("the request failed: {e}"),
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
