//! What more than one room asks of a URL: how it is shown, and whether it leaves this machine.

use std::net::IpAddr;

use hyper::Uri;

/// A URL as pages and the log may show it: without its query, which may hold a credential.
pub fn shown(url: &Uri) -> String {
    let scheme = url.scheme_str().unwrap_or_default();
    let authority = url.authority().map_or("", |authority| authority.as_str());
    let query = if url.query().is_some() { "?…" } else { "" };
    format!("{scheme}://{authority}{}{query}", url.path())
}

/// Whether what is sent there stays on this machine: `localhost`, or a loopback address.
pub fn is_here(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Uri {
        text.parse().expect("a URL")
    }

    #[test]
    fn what_shows_a_url_leaves_its_query_out() {
        assert_eq!(shown(&url("https://h:1/p?key=s3cr3t")), "https://h:1/p?…");
        assert_eq!(shown(&url("http://h")), "http://h/");
    }

    #[test]
    fn only_loopback_is_here() {
        for here in
            ["http://localhost", "http://LocalHost:1/", "http://127.3.2.1", "http://[::1]:2"]
        {
            assert!(is_here(&url(here)), "{here}");
        }
        for away in
            ["http://localhost.example", "http://0.0.0.0", "http://10.0.0.1", "http://[::2]"]
        {
            assert!(!is_here(&url(away)), "{away}");
        }
    }
}
