//! The named schemas of the OpenAPI description.

use std::collections::BTreeMap;

use serde_json::{Value as Schema, json};

/// The named schemas of a document.
#[derive(Debug, Default)]
pub struct Components(BTreeMap<String, Schema>);

impl Components {
    /// Refers to a schema, which is made and added with all that it refers to, unless the document has it.
    pub(crate) fn refer(&mut self, name: &str, schema: impl FnOnce(&mut Self) -> Schema) -> Schema {
        if !self.0.contains_key(name) {
            // A schema may refer to itself.
            self.0.insert(name.to_owned(), Schema::Null);
            let schema = schema(self);
            self.0.insert(name.to_owned(), schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// Refers to an enumeration.
    pub fn refer_words(&mut self, name: &str, doc: &str, words: &[&str]) -> Schema {
        let describe = || json!({"type": "string", "enum": words, "description": description(doc)});
        self.refer(name, |_| describe())
    }

    /// A schema that holds those that it refers to.
    pub fn inline(schema: impl FnOnce(&mut Self) -> Schema) -> Schema {
        let mut components = Self::default();
        let mut schema = schema(&mut components);
        components.replace_references(&mut schema);
        schema
    }

    fn replace_references(&self, schema: &mut Schema) {
        if let Some(name) = schema["$ref"]
            .as_str()
            .and_then(|path| path.rsplit('/').next())
        {
            let target = self.0[name].clone();
            // What stands beside the reference, such as a default, counts.
            let beside = std::mem::replace(schema, target);
            for (keyword, value) in beside.as_object().into_iter().flatten() {
                if keyword != "$ref" {
                    schema[keyword] = value.clone();
                }
            }
        }
        match schema {
            Schema::Object(members) => members
                .values_mut()
                .for_each(|member| self.replace_references(member)),
            Schema::Array(items) => items
                .iter_mut()
                .for_each(|item| self.replace_references(item)),
            _ => {}
        }
    }

    /// All of them, by name.
    pub fn into_schemas(self) -> BTreeMap<String, Schema> {
        self.0
    }
}

/// A doc comment without its indentation.
pub(super) fn description(doc: &str) -> String {
    let lines: Vec<&str> = doc.trim().lines().map(str::trim).collect();
    lines.join("\n")
}
