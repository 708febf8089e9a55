//! The description of an object: an OpenAPI schema, made from the declaration that reads and writes it.

use serde_json::{Value as Schema, json};

use super::components::{Components, description};
use super::field::Field;
use super::member::Member;

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

    /// Refers to the object, whose members are added where it is first referred to.
    pub fn refer(
        mut self,
        components: &mut Components,
        members: impl FnOnce(&mut Self, &mut Components),
    ) -> Schema {
        components.refer(self.name, |components| {
            members(&mut self, components);
            self.schema
        })
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
