//! Puts a script together from its own text and the fragments of `lua/lib/` that it includes.
//!
//! Two directives, each on a line of its own, are replaced by the text of the fragments that they name:
//!
//! - `-- @include base/time, base/int64` is not indented. Each fragment is included once per script, with the
//!   fragments that it includes itself.
//! - `-- @cold log/events` is inside a block, indented like the block. The fragment is defined only when the block
//!   is entered, and only there. A definition costs time in each call that passes it, so scripts keep rarely used functions
//!   off their usual path. The block ends at the next line that is indented less.
//!
//! The first line of a script, `#!lua flags=…`, stays first.

/// Where a line of an assembled script was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Name of the fragment; `None` for the script itself.
    pub fragment: Option<&'static str>,
    /// Counted from 1.
    pub line: usize,
}

/// Replaces the directives; returns the text and the origin of each of its lines.
///
/// # Errors
/// A directive that cannot be followed, in words. A test assembles every script of the build.
pub fn assemble(
    path: &'static str,
    text: &str,
    fragments: &[(&'static str, &'static str)],
) -> Result<(String, Vec<Origin>), String> {
    if !text.starts_with("#!lua") {
        // Redis takes flags from the first line only.
        return Err(format!("script `{path}` does not start with `#!lua`"));
    }
    let mut assembly = Assembly {
        path,
        fragments,
        source: String::with_capacity(text.len() * 2),
        origins: Vec::new(),
        known: Vec::new(),
        open: Vec::new(),
    };
    assembly.take(None, text)?;
    Ok((assembly.source, assembly.origins))
}

struct Assembly<'a> {
    path: &'static str,
    fragments: &'a [(&'static str, &'static str)],
    source: String,
    origins: Vec<Origin>,
    /// Fragments whose functions are defined at this point.
    known: Vec<&'static str>,
    /// Fragments that are being included.
    open: Vec<&'static str>,
}

impl Assembly<'_> {
    fn take(&mut self, fragment: Option<&'static str>, text: &str) -> Result<(), String> {
        // How far each block with a cold directive is indented, and how many fragments were known before it.
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            while let Some((_, known)) = blocks.pop_if(|block| !code.is_empty() && indent < block.0)
            {
                self.known.truncate(known);
            }
            let (names, cold) = match code.strip_prefix("-- @").map(|line| line.split_once(' ')) {
                Some(Some(("include", names))) => (names, false),
                Some(Some(("cold", names))) => (names, true),
                _ => {
                    self.source.push_str(line);
                    self.source.push('\n');
                    let line = index + 1;
                    self.origins.push(Origin { fragment, line });
                    continue;
                }
            };
            if cold != (indent > 0) {
                let file = fragment.unwrap_or(self.path);
                return Err(format!(
                    "`{file}` has a directive that is indented wrong: `{code}`"
                ));
            }
            if cold && blocks.last().is_none_or(|block| block.0 < indent) {
                blocks.push((indent, self.known.len()));
            }
            for name in names.split(',') {
                self.include(fragment.unwrap_or(self.path), name.trim())?;
            }
        }
        Ok(())
    }

    fn include(&mut self, file: &'static str, name: &str) -> Result<(), String> {
        let found = self.fragments.iter().find(|(known, _)| *known == name);
        let Some(&(name, text)) = found else {
            return Err(format!("`{file}` includes `{name}`, which does not exist"));
        };
        if self.open.contains(&name) {
            return Err(format!("`{file}` includes `{name}` within `{name}`"));
        }
        if self.known.contains(&name) {
            return Ok(());
        }
        self.open.push(name);
        self.take(Some(name), text)?;
        self.open.pop();
        self.known.push(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::rows;

    const FRAGMENTS: &[(&str, &str)] = &[
        ("time", "local function now() end\n"),
        ("money", "-- @include time\nlocal function add() end\n"),
        ("loop_a", "-- @include loop_b\n"),
        ("loop_b", "-- @include loop_a\n"),
        ("broken", "-- @include absent\n"),
    ];

    fn assembled(text: &str) -> Result<String, String> {
        assemble("fixture", text, FRAGMENTS).map(|(source, _)| source)
    }

    #[test]
    fn a_fragment_is_included_once_with_its_own_fragments() {
        let text = "#!lua flags=allow-oom\n-- @include money, time\nreturn 1\n";
        let (source, origins) = assemble("fixture", text, FRAGMENTS).expect("it assembles");
        assert_eq!(
            source,
            "#!lua flags=allow-oom\nlocal function now() end\nlocal function add() end\nreturn 1\n"
        );
        let expected = [(None, 1), (Some("time"), 1), (Some("money"), 2), (None, 3)];
        assert_eq!(
            origins,
            expected.map(|(fragment, line)| Origin { fragment, line })
        );
    }

    #[test]
    fn a_fragment_of_a_block_is_defined_to_its_end() {
        let text = "#!lua\nif a then\n  -- @cold time\n  if b then\n    -- @cold money\n    add()\n  end\n\n  \
                    -- @cold money\n  add()\nend\n-- @include time\n";
        let source = assembled(text).expect("it assembles");
        let now = "local function now() end";
        let add = "local function add() end";
        let expected = format!(
            "#!lua\nif a then\n{now}\n  if b then\n{add}\n    add()\n  end\n\n{add}\n  add()\nend\n{now}\n"
        );
        assert_eq!(source, expected);
    }

    #[test]
    fn a_wrong_directive_is_refused_by_name() {
        for (lines, expected) in rows(
            "#!lua;  -- @include time => `fixture` has a directive that is indented wrong: `-- @include time`
            #!lua;-- @cold time => `fixture` has a directive that is indented wrong: `-- @cold time`
            #!lua;-- @include money, what => `fixture` includes `what`, which does not exist
            #!lua;-- @include broken => `broken` includes `absent`, which does not exist
            #!lua;-- @include loop_a => `loop_b` includes `loop_a` within `loop_a`
            return 1 => script `fixture` does not start with `#!lua`",
        ) {
            let text = lines.replace(';', "\n") + "\n";
            assert_eq!(assembled(&text), Err(expected.to_owned()), "{text}");
        }
    }
}
