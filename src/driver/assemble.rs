//! Puts a script together from its own text and the fragments of `lua/lib/` that it includes.
//!
//! Directives, each on a line of its own, are replaced by the text of the fragments that they name:
//!
//! - `-- @include base/time, base/int64` is not indented. Each fragment is included once per script, with the
//!   fragments that it includes itself.
//! - `-- @cold log/events` is inside a block, indented like the block. The fragment is defined only when the block
//!   is entered, and only there. A definition costs time in each call that passes it, so scripts keep rarely used functions
//!   off their usual path. The block ends at the next line that is indented less.
//! - `-- @members OPERATIONS`, in the script of a batch, is replaced by its members: each other script becomes a function of its KEYS
//!   and ARGV in this table, under its name. All fragments of members come before the first, so that they share them.
//!
//! The first line of a script, `#!lua flags=…`, stays first.

/// Where a line of an assembled script was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Below `lua/`: `lib/` for a fragment, else nothing.
    pub folder: &'static str,
    /// The path below that, without its ending.
    pub path: &'static str,
    /// Counted from 1.
    pub line: usize,
}

/// The path and the text of a script or fragment.
pub type Source = (&'static str, &'static str);

/// Replaces the directives; returns the text and the origin of each of its lines.
///
/// # Errors
/// A directive that cannot be followed, in words. A test assembles every script of the build.
pub fn assemble(
    (path, text): Source,
    fragments: &[Source],
    members: &[Source],
) -> Result<(String, Vec<Origin>), String> {
    if !text.starts_with("#!lua") {
        // Redis takes flags from the first line only.
        return Err(format!("script `{path}` does not start with `#!lua`"));
    }
    let mut assembly = Assembly {
        fragments,
        members,
        source: String::with_capacity(text.len() * 2),
        origins: Vec::new(),
        known: Vec::new(),
        open: Vec::new(),
    };
    assembly.take("", path, text.lines().enumerate())?;
    Ok((assembly.source, assembly.origins))
}

struct Assembly<'a> {
    fragments: &'a [Source],
    members: &'a [Source],
    source: String,
    origins: Vec<Origin>,
    /// Fragments whose functions are defined at this point.
    known: Vec<&'static str>,
    /// Fragments that are being included.
    open: Vec<&'static str>,
}

impl Assembly<'_> {
    fn take<'t>(
        &mut self,
        folder: &'static str,
        path: &'static str,
        lines: impl Iterator<Item = (usize, &'t str)>,
    ) -> Result<(), String> {
        // How far each block with a cold directive is indented, and how many fragments were known before it.
        let mut blocks: Vec<(usize, usize)> = Vec::new();
        for (index, line) in lines {
            let code = line.trim_start();
            let indent = line.len() - code.len();
            while let Some((_, known)) = blocks.pop_if(|block| !code.is_empty() && indent < block.0)
            {
                self.known.truncate(known);
            }
            let line_of = |line| Origin { folder, path, line };
            let (names, cold) = match directive(code) {
                Some(("members", table)) => {
                    self.define_members(table, &line_of(index + 1))?;
                    continue;
                }
                Some((kind, names)) => (names, kind == "cold"),
                None => {
                    self.push(line, line_of(index + 1));
                    continue;
                }
            };
            if cold != (indent > 0) {
                return Err(format!(
                    "`{path}` has a directive that is indented wrong: `{code}`"
                ));
            }
            if cold && blocks.last().is_none_or(|block| block.0 < indent) {
                blocks.push((indent, self.known.len()));
            }
            self.include_each(path, names)?;
        }
        Ok(())
    }

    fn push(&mut self, line: &str, origin: Origin) {
        self.source.push_str(line);
        self.source.push('\n');
        self.origins.push(origin);
    }

    /// Defines each member as a function, behind the fragments of all.
    fn define_members(&mut self, table: &str, at: &Origin) -> Result<(), String> {
        let members = self.members;
        for (path, text) in members {
            self.include_all_of(path, text)?;
        }
        for (path, text) in members {
            let name = path.rsplit_once('/').map_or(*path, |(_, name)| name);
            let head = format!("{table}['{name}'] = function(KEYS, ARGV)");
            self.push(&head, at.clone());
            // The first line is Redis's, not Lua's.
            self.take("", path, text.lines().enumerate().skip(1))?;
            self.push("end", at.clone());
        }
        Ok(())
    }

    /// Includes the fragments that a file names anywhere.
    fn include_all_of(&mut self, path: &'static str, text: &str) -> Result<(), String> {
        for (_, names) in text.lines().filter_map(|line| directive(line.trim_start())) {
            self.include_each(path, names)?;
        }
        Ok(())
    }

    fn include_each(&mut self, path: &'static str, names: &str) -> Result<(), String> {
        let mut names = names.split(',');
        names.try_for_each(|name| self.include(path, name.trim()))
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
        if !self.members.is_empty() {
            // Fragments of blocks too: what a batch replaces in one must be the only one.
            self.include_all_of(name, text)?;
        }
        self.take("lib/", name, text.lines().enumerate())?;
        self.open.pop();
        self.known.push(name);
        Ok(())
    }
}

/// The kind and the names of a directive.
fn directive(code: &str) -> Option<(&str, &str)> {
    let directive = code.strip_prefix("-- @")?.split_once(' ');
    directive.filter(|(kind, _)| matches!(*kind, "include" | "cold" | "members"))
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
        let script = ("fixture", text.to_owned().leak() as &str);
        assemble(script, FRAGMENTS, &[]).map(|(source, _)| source)
    }

    #[test]
    fn a_fragment_is_included_once_with_its_own_fragments() {
        let text = "#!lua flags=allow-oom\n-- @include money, time\nreturn 1\n";
        let (source, origins) = assemble(("fixture", text), FRAGMENTS, &[]).expect("it assembles");
        assert_eq!(
            source,
            "#!lua flags=allow-oom\nlocal function now() end\nlocal function add() end\nreturn 1\n"
        );
        assert_eq!(
            places(&origins),
            "fixture:1 lib/time:1 lib/money:2 fixture:3"
        );
    }

    fn places(origins: &[Origin]) -> String {
        let places = origins.iter().map(|origin| {
            let Origin { folder, path, line } = origin;
            format!("{folder}{path}:{line}")
        });
        places.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn members_are_functions_behind_the_fragments_of_all() {
        let members = [
            ("runtime/a", "#!lua\n-- @include time\nreturn now()\n"),
            (
                "runtime/b",
                "#!lua flags=x\nif KEYS[1] then\n  -- @cold money\n  add()\nend\n",
            ),
        ];
        let batch = ("batch", "#!lua\nlocal T = {}\n-- @members T\nreturn T\n");
        let (source, origins) = assemble(batch, FRAGMENTS, &members).expect("it assembles");
        assert_eq!(
            source,
            "#!lua\nlocal T = {}\nlocal function now() end\nlocal function add() end\n\
             T['a'] = function(KEYS, ARGV)\nreturn now()\nend\n\
             T['b'] = function(KEYS, ARGV)\nif KEYS[1] then\n  add()\nend\nend\nreturn T\n"
        );
        let expected = "batch:1 batch:2 lib/time:1 lib/money:2 batch:3 runtime/a:3 batch:3 batch:3 runtime/b:2 runtime/b:4 \
                        runtime/b:5 batch:3 batch:4";
        assert_eq!(places(&origins), expected);
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
