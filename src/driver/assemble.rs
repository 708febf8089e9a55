//! Puts a script together from its own text and the shared parts that it includes.

/// Why a script cannot be assembled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IncludeError {
    /// There is no such file in `lua/lib/`.
    #[error("script `{script}` includes `{part}`, which does not exist")]
    Missing {
        /// Name of the script.
        script: &'static str,
        /// Name of the part.
        part: String,
    },
    /// A part includes itself, perhaps by way of others.
    #[error("script `{script}` includes `{part}` within `{part}`")]
    Cycle {
        /// Name of the script.
        script: &'static str,
        /// Name of the part.
        part: String,
    },
    /// Redis takes flags from the first line only.
    #[error("script `{0}` does not start with `#!lua`")]
    NoShebang(&'static str),
}

/// Where a line of an assembled script was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Name of the part; `None` for the script itself.
    pub part: Option<&'static str>,
    pub line: usize,
}

/// Replaces the include lines; returns the text and the origin of each of its lines.
pub(crate) fn assemble(
    script: &'static str,
    text: &'static str,
    parts: &[(&'static str, &'static str)],
) -> Result<(String, Vec<Origin>), IncludeError> {
    if !text.starts_with("#!lua") {
        return Err(IncludeError::NoShebang(script));
    }
    let mut assembly = Assembly {
        script,
        parts,
        source: String::with_capacity(text.len() * 2),
        origins: Vec::new(),
        done: Vec::new(),
        open: Vec::new(),
    };
    assembly.take(None, text)?;
    Ok((assembly.source, assembly.origins))
}

struct Assembly<'a> {
    script: &'static str,
    parts: &'a [(&'static str, &'static str)],
    source: String,
    origins: Vec<Origin>,
    done: Vec<&'static str>,
    open: Vec<&'static str>,
}

impl Assembly<'_> {
    fn take(&mut self, part: Option<&'static str>, text: &str) -> Result<(), IncludeError> {
        for (index, line) in text.lines().enumerate() {
            match line.trim_start().strip_prefix("-- @include ") {
                Some(names) => {
                    for name in names.split(',') {
                        self.include(name.trim())?;
                    }
                }
                None => {
                    self.source.push_str(line);
                    self.source.push('\n');
                    self.origins.push(Origin {
                        part,
                        line: index + 1,
                    });
                }
            }
        }
        Ok(())
    }

    fn include(&mut self, name: &str) -> Result<(), IncludeError> {
        let script = self.script;
        let found = self.parts.iter().find(|(part, _)| *part == name);
        let &(name, text) = found.ok_or_else(|| IncludeError::Missing {
            script,
            part: name.to_owned(),
        })?;
        if self.open.contains(&name) {
            let part = name.to_owned();
            return Err(IncludeError::Cycle { script, part });
        }
        if self.done.contains(&name) {
            return Ok(());
        }
        self.open.push(name);
        self.take(Some(name), text)?;
        self.open.pop();
        self.done.push(name);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: &[(&str, &str)] = &[
        ("time", "local function now() end\n"),
        ("money", "-- @include time\nlocal function add() end\n"),
        ("loop_a", "-- @include loop_b\n"),
        ("loop_b", "-- @include loop_a\n"),
        ("broken", "-- @include nowhere\n"),
    ];

    fn assembled(text: &'static str) -> Result<String, IncludeError> {
        assemble("fixture", text, PARTS).map(|(source, _)| source)
    }

    #[test]
    fn a_part_is_taken_in_once_with_its_own_parts() {
        let text = "#!lua flags=allow-oom\n-- @include money, time\nreturn 1\n";
        let (source, origins) = assemble("fixture", text, PARTS).expect("it assembles");
        assert_eq!(
            source,
            "#!lua flags=allow-oom\nlocal function now() end\nlocal function add() end\nreturn 1\n"
        );
        let origin = |part, line| Origin { part, line };
        assert_eq!(
            origins,
            [
                origin(None, 1),
                origin(Some("time"), 1),
                origin(Some("money"), 2),
                origin(None, 3)
            ]
        );
    }

    #[test]
    fn a_missing_part_and_a_cycle_are_refused_by_name() {
        let missing = |part: &str| IncludeError::Missing {
            script: "fixture",
            part: part.into(),
        };
        assert_eq!(
            assembled("#!lua\n-- @include money, what\n"),
            Err(missing("what"))
        );
        assert_eq!(
            assembled("#!lua\n-- @include broken\n"),
            Err(missing("nowhere"))
        );
        let cycle = IncludeError::Cycle {
            script: "fixture",
            part: "loop_a".into(),
        };
        assert_eq!(assembled("#!lua\n-- @include loop_a\n"), Err(cycle));
        assert_eq!(
            assembled("return 1\n"),
            Err(IncludeError::NoShebang("fixture"))
        );
    }
}
