//! The description of objects: OpenAPI schemas, made from the declarations that read and show them.

use std::collections::BTreeMap;

use serde_json::{Value as Schema, json};

use super::field::Field;
use super::member::Member;

/// The named schemas of a document.
#[derive(Debug, Default)]
pub struct Components(BTreeMap<String, Schema>);

impl Components {
    /// Refers to the schema of an object, which is added with all that it refers to.
    pub fn refer(
        &mut self,
        mut described: Described,
        members: impl FnOnce(&mut Described, &mut Self),
    ) -> Schema {
        let name = described.name;
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Schema::Null);
            members(&mut described, self);
            self.0.insert(name.to_owned(), described.schema);
        }
        json!({"$ref": format!("#/components/schemas/{name}")})
    }

    /// Refers to an enumeration.
    pub fn refer_words(&mut self, name: &str, doc: &str, words: &[&str]) -> Schema {
        let schema = json!({"type": "string", "enum": words, "description": description(doc)});
        self.0.insert(name.to_owned(), schema);
        json!({"$ref": format!("#/components/schemas/{name}")})
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
            *schema = self.0[name].clone();
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

/// The schema of an object in the making.
#[derive(Debug)]
pub struct Described {
    name: &'static str,
    schema: Schema,
}

impl Described {
    /// An object without members yet, described by a doc comment.
    pub fn new(name: &'static str, doc: &str) -> Self {
        let schema = json!({
            "type": "object",
            "description": description(doc),
            "additionalProperties": false,
            "properties": {},
        });
        Self { name, schema }
    }

    /// Another name than the struct's.
    pub fn publish_as(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Takes note of a role of the declaration: an `Open` object may get further members.
    pub fn role(mut self, role: &str) -> Self {
        if let Some(object) = self.schema.as_object_mut().filter(|_| role == "Open") {
            object.remove("additionalProperties");
        }
        self
    }

    /// Adds a member.
    pub fn member<T: Field>(&mut self, member: Member<T>, components: &mut Components) {
        let Some(mut schema) = member.describe(components) else {
            return;
        };
        let name = member.name;
        schema["description"] = description(member.doc).into();
        self.schema["properties"][name] = schema;
        if member.required_by_description() {
            match self.schema["required"].as_array_mut() {
                Some(required) => required.push(name.into()),
                None => self.schema["required"] = json!([name]),
            }
        }
    }
}

/// A doc comment without its indentation.
fn description(doc: &str) -> String {
    let lines: Vec<&str> = doc.trim().lines().map(str::trim).collect();
    lines.join("\n")
}
