//! As much Markdown as the pages use.

/// The rows of a table, each cell without its padding; the header and the rule are left out.
pub fn rows(text: &str, first_header: &str) -> Vec<Vec<String>> {
    let mut inside = false;
    let mut rows = Vec::new();
    for line in text.lines() {
        let cells = cells(line);
        match cells.first() {
            None => inside = false,
            Some(first) if first == first_header => inside = true,
            Some(first) if first.starts_with("---") => {}
            Some(_) if inside => rows.push(cells),
            Some(_) => {}
        }
    }
    assert!(!rows.is_empty(), "there is a table that begins with `{first_header}`");
    rows
}

fn cells(line: &str) -> Vec<String> {
    let Some(line) = line.strip_prefix('|') else { return Vec::new() };
    let escaped = line.replace(r"\|", "\0");
    let mut cells: Vec<String> =
        escaped.split('|').map(|cell| cell.trim().replace('\0', "|")).collect();
    cells.pop();
    cells
}

/// What stands between backticks.
pub fn code(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The part under a heading of the second level.
pub fn section<'t>(text: &'t str, heading: &str) -> &'t str {
    let start = format!("\n## {heading}\n");
    let (_, rest) = text.split_once(&start).unwrap_or_else(|| panic!("a section {heading}"));
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

/// The fenced blocks of a language.
pub fn fences<'t>(text: &'t str, language: &str) -> Vec<&'t str> {
    let parts: Vec<&str> = text.split("```").collect();
    assert_eq!(parts.len() % 2, 1, "every fence is closed");
    let fenced = parts.into_iter().skip(1).step_by(2);
    fenced.filter_map(|part| part.strip_prefix(language)?.strip_prefix('\n')).collect()
}
