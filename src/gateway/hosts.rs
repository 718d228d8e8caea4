//! Under which names a listener answers, so that a web page cannot reach it by a name of its own
//! that leads here (DNS rebinding; MCP, Transports, "Security Warning").

use std::net::{IpAddr, SocketAddr};

use actix_web::dev::RequestHead;
use actix_web::http::header::{HOST, HeaderMap};

/// The names of one listener. A loopback listener trusts that whoever reaches it is on its machine,
/// which holds for the browser that an attacker's page runs in, too; but the browser says in `Host`
/// whom the page meant. Any other listener is reached by its address anyway, and is not asked.
#[derive(Debug, Clone)]
pub struct Hosts {
    loopback: bool,
    allowed: Vec<String>,
}

impl Hosts {
    /// The names of the machine itself, and those that were configured.
    pub fn new(allowed: Vec<String>, listener: SocketAddr) -> Self {
        Self { loopback: listener.ip().is_loopback(), allowed }
    }

    /// Whether the listener answers to the host that the request means: that of its target in
    /// absolute form, which counts for more than `Host` (RFC 9112, 3.2.2), and that of `Host`. A
    /// request without either comes from no browser and passes.
    pub fn admit(&self, head: &RequestHead) -> bool {
        !self.loopback
            || (head.uri.host().is_none_or(|name| self.knows(name)) && self.admits(head.headers()))
    }

    fn admits(&self, headers: &HeaderMap) -> bool {
        let mut lines = headers.get_all(HOST);
        let Some(line) = lines.next() else { return true };
        let name = line.to_str().ok().and_then(without_port);
        lines.next().is_none() && name.is_some_and(|name| self.knows(name))
    }

    fn knows(&self, name: &str) -> bool {
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        name.eq_ignore_ascii_case("localhost")
            || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
            || self.allowed.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }
}

/// The host of `host[:port]`; `None` where the port is no number.
fn without_port(host: &str) -> Option<&str> {
    let digits = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => digits(port).then_some(name),
        _ => Some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use actix_web::http::header::HeaderValue;

    fn admits(listener: &str, lines: &[&str]) -> bool {
        admits_target(listener, "/mcp", lines)
    }

    fn admits_target(listener: &str, target: &str, lines: &[&str]) -> bool {
        let allowed = vec!["mcp.example.com".to_owned(), "[fd00::1]".to_owned()];
        let mut head = RequestHead::default();
        head.uri = target.parse().expect("a target");
        for line in lines {
            head.headers.append(HOST, HeaderValue::from_str(line).expect("a value"));
        }
        Hosts::new(allowed, listener.parse().expect("an address")).admit(&head)
    }

    #[test]
    fn a_loopback_listener_answers_under_its_machines_names_and_those_configured() {
        for name in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.1.2.3:1",
            "[::1]",
            "[::1]:8080",
            "mcp.example.com",
            "MCP.example.com:443",
            "[fd00::1]:80",
        ] {
            assert!(admits("127.0.0.1:8080", &[name]), "{name}");
            assert!(admits("[::1]:8080", &[name]), "{name}");
        }
        assert!(admits("127.0.0.1:8080", &[]), "no browser");
    }

    #[test]
    fn it_answers_under_no_other_name() {
        for name in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example#localhost",
            "localhost:x",
            "localhost@evil.example",
            "0.0.0.0:8080",
            "10.0.0.1",
            "[::]",
            "",
        ] {
            assert!(!admits("127.0.0.1:8080", &[name]), "{name}");
        }
        assert!(!admits("127.0.0.1:8080", &["localhost", "evil.example"]), "two lines");
        assert!(!admits("127.0.0.1:8080", &["localhost", "localhost"]), "two lines");
    }

    #[test]
    fn a_target_in_absolute_form_names_the_host_too() {
        let admits = |target: &str, host: &str| admits_target("[::1]:80", target, &[host]);
        assert!(admits("http://localhost:80/mcp", "localhost"));
        assert!(admits("http://[::1]/mcp", "localhost"));
        assert!(!admits("http://evil.example/mcp", "localhost"));
        assert!(!admits("http://localhost/mcp", "evil.example"));
    }

    #[test]
    fn another_listener_is_not_asked() {
        assert!(admits("10.0.0.1:8080", &["anything.example"]));
        assert!(admits("0.0.0.0:8080", &["anything.example"]));
    }
}
