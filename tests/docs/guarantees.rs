//! docs/GUARANTEES.md: the numbers follow from the real defaults.

use onceward::claim::Limits;

const PAGE: &str = include_str!("../../docs/GUARANTEES.md");

#[test]
fn the_numbers_follow_from_the_defaults() {
    let limits = Limits::default();
    let minutes = limits.ttl.0 / 60_000;
    // Less than this apart, calls of a session fill its records before the first one expires.
    let seconds = limits.ttl.0 / 1000 / u64::from(limits.scope_entries);
    let mib = limits.entries as usize * limits.reply_bytes / (1024 * 1024);
    let entries_of_a_gib = (1 << 30) / limits.reply_bytes;
    let text = PAGE.split_whitespace().collect::<Vec<_>>().join(" ");
    for claim in [
        format!("a session has {} records and {minutes} minutes", limits.scope_entries),
        format!("a keyed call every {seconds} seconds begins to evict"),
        format!("{} unresolved calls stop a session's keyed calls", limits.scope_tombstones),
        format!("{mib} MiB by default; 1 GiB for {entries_of_a_gib} entries"),
    ] {
        assert!(text.contains(&claim), "the page should say: {claim}");
    }
}

#[test]
fn pages_link_only_to_pages_that_exist() {
    let pages = [
        ("CONFIGURATION.md", include_str!("../../docs/CONFIGURATION.md")),
        ("ERRORS.md", include_str!("../../docs/ERRORS.md")),
        ("GUARANTEES.md", PAGE),
        ("POLICY.md", include_str!("../../docs/POLICY.md")),
        ("VERIFICATION.md", include_str!("../../docs/VERIFICATION.md")),
    ];
    for (page, text) in pages {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let known = pages.iter().any(|(name, _)| *name == link);
            assert!(known, "{page} links to {link}");
        }
    }
}
