//! Texts of the description as HTML. All of them pass [`escaped`], so that none can become markup of its own.

/// A text as it may stand between tags and in a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            letter => html.push(letter),
        }
    }
    html
}

/// Markdown inside a line: `code`, **strong** and [links](/docs). Anything else is text.
pub(super) fn inline(markdown: &str) -> String {
    let (mut html, mut rest) = (String::new(), markdown);
    while let Some(at) = rest.find(['`', '*', '[']) {
        html += &escaped(&rest[..at]);
        rest = &rest[at..];
        let marked = code(rest).or_else(|| strong(rest)).or_else(|| link(rest));
        let (element, after) = marked.unwrap_or_else(|| (rest[..1].to_owned(), &rest[1..]));
        html += &element;
        rest = after;
    }
    html + &escaped(rest)
}

/// Markdown in paragraphs, which an empty line separates.
pub(super) fn paragraphs(markdown: &str) -> String {
    let paragraphs = markdown.split("\n\n").map(str::trim);
    let filled = paragraphs.filter(|text| !text.is_empty());
    filled
        .map(|text| format!("<p>{}</p>\n", inline(text)))
        .collect()
}

/// What stands between two marks at the start of a text, and what follows; `None` if there is nothing between.
fn enclosed<'t>(text: &'t str, mark: &str) -> Option<(&'t str, &'t str)> {
    let (inside, after) = text.strip_prefix(mark)?.split_once(mark)?;
    (!inside.is_empty()).then_some((inside, after))
}

fn code(text: &str) -> Option<(String, &str)> {
    let (inside, after) = enclosed(text, "`")?;
    Some((format!("<code>{}</code>", escaped(inside)), after))
}

fn strong(text: &str) -> Option<(String, &str)> {
    let (inside, after) = enclosed(text, "**")?;
    Some((format!("<strong>{}</strong>", escaped(inside)), after))
}

fn link(text: &str) -> Option<(String, &str)> {
    let (label, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = rest.split_once(')')?;
    let has_label = !label.contains('[') && !label.contains(']');
    let html = format!("<a href=\"{}\">{}</a>", escaped(target), escaped(label));
    (has_label && leads_somewhere_safe(target)).then_some((html, after))
}

/// Whether a link leads to this site or to another page, and runs nothing.
fn leads_somewhere_safe(target: &str) -> bool {
    let is_local = target.starts_with('#') || target.starts_with('/') && !target.starts_with("//");
    is_local || target.starts_with("https://") || target.starts_with("http://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_html_and_markup_in_it_stays_text() {
        for (markdown, html) in [
            ("plain", "plain"),
            (
                "`scope` and **all**",
                "<code>scope</code> and <strong>all</strong>",
            ),
            (
                "`<b>` & '\"'",
                "<code>&lt;b&gt;</code> &amp; &#39;&quot;&#39;",
            ),
            (
                "[errors](/docs#errors)",
                "<a href=\"/docs#errors\">errors</a>",
            ),
            (
                "[x](https://example.com/a)",
                "<a href=\"https://example.com/a\">x</a>",
            ),
            ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
            ("[x](//example.com)", "[x](//example.com)"),
            (
                "[x](/a\"onclick=\"b)",
                "<a href=\"/a&quot;onclick=&quot;b\">x</a>",
            ),
            (
                "<script>alert(1)</script>",
                "&lt;script&gt;alert(1)&lt;/script&gt;",
            ),
            (
                "`********` and `*`",
                "<code>********</code> and <code>*</code>",
            ),
            ("a * b ` c [ d ](", "a * b ` c [ d ]("),
            ("array[] of [a, b]", "array[] of [a, b]"),
        ] {
            assert_eq!(inline(markdown), html, "{markdown}");
        }
        assert_eq!(
            paragraphs("a\n\n`b`\n"),
            "<p>a</p>\n<p><code>b</code></p>\n"
        );
    }
}
