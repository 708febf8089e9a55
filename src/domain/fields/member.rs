//! One member of an object: its name, rules and default; and the description of an object, made of its members'.

use serde::Serialize;
use serde::ser::SerializeStruct;
use serde_json::{Value as Schema, json};

use super::field::Field;
use super::rules::{Blank, Bounds, Entries, Form, Items, Range, Text};
use super::schema::{Components, description};
use crate::domain::record::{FieldChange, Record, RecordError, Recorded, Written};

/// One member: name, rules, default, and how it is described. Built by the options of [`object!`](super::object).
pub struct Member<T: Field> {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    field: &'static str,
    recorded: bool,
    cleared: Option<&'static str>,
    pub(super) rules: T::Rules,
    pub(super) default: Option<T::Inner>,
    default_schema: Option<fn(&T::Inner) -> Schema>,
    required: bool,
    described: bool,
    internal: bool,
    inline: bool,
    skip_if: Option<fn(&T) -> bool>,
    named_by: Option<fn(&T) -> &'static str>,
    described_as: Option<fn() -> Schema>,
    keyword: Option<Keyword>,
}

/// A keyword of a schema and its value. A function, so that a member costs nothing where it is not described.
pub type Keyword = (&'static str, fn() -> Schema);

/// Declares options of members: each is a method that sets one thing, and returns the member.
macro_rules! options {
    ($(
        $(#[$doc:meta])*
        $option:ident($argument:ident : $type:ty) sets $($place:ident).+ = $value:expr;
    )*) => {
        $(
            $(#[$doc])*
            pub fn $option(mut self, $argument: $type) -> Self {
                self.$($place).+ = $value;
                self
            }
        )*
    };
}

impl<T: Field> Member<T> {
    /// A member without options, described by its doc comment.
    pub fn new(name: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            doc,
            field: name,
            recorded: true,
            cleared: None,
            rules: T::Rules::default(),
            default: None,
            default_schema: None,
            required: true,
            described: true,
            internal: false,
            inline: false,
            skip_if: None,
            named_by: None,
            described_as: None,
            keyword: None,
        }
    }

    options! {
        /// The name on the wire, where it is not the struct's.
        name(name: &'static str) sets name = name;
        /// The field of records that holds the member, where it has another name.
        field(field: &'static str) sets field = field;
        /// `false`: not written to records with the other members.
        recorded(recorded: bool) sets recorded = recorded;
        /// The value of the field when the member is cleared, if it is not removed.
        cleared(cleared: &'static str) sets cleared = Some(cleared);
        /// The same as [`Self::default`], where the published description has no default.
        unpublished_default(default: T::Inner) sets default = Some(default);
        /// `false`: the published description calls the member optional, though it is always there, or must be.
        required(required: bool) sets required = required;
        /// `false`: the description leaves the member out.
        described(described: bool) sets described = described;
        /// `true`: the description has the schema here, without a name.
        inline(inline: bool) sets inline = inline;
        /// Values that responses leave out.
        skip_if(skip_if: fn(&T) -> bool) sets skip_if = Some(skip_if);
        /// The name in responses, where the value decides it.
        named_by(named_by: fn(&T) -> &'static str) sets named_by = Some(named_by);
        /// Another schema than the type's, where the published description says less.
        described_as(schema: fn() -> Schema) sets described_as = Some(schema);
        /// The rules of the type, where no other option sets them.
        rules(rules: T::Rules) sets rules = rules;
        /// A keyword of the schema besides those that follow from type and rules.
        keyword(keyword: Keyword) sets keyword = Some(keyword);
    }

    /// The default of the member. On an `Option` it is only described: the code that uses the value applies it.
    pub fn default(mut self, default: T::Inner) -> Self
    where
        T::Inner: Serialize,
    {
        self.default = Some(default);
        self.default_schema = Some(|default| json!(default));
        self
    }

    /// `true`: neither responses nor the description have the member.
    pub fn internal(mut self, internal: bool) -> Self {
        (self.internal, self.described) = (internal, !internal);
        self
    }

    /// Writes the member of a response.
    ///
    /// # Errors
    /// Of the serializer.
    pub fn serialize_into<S: SerializeStruct>(
        self,
        value: &T,
        object: &mut S,
    ) -> Result<(), S::Error>
    where
        T: Serialize,
    {
        if self.internal || value.is_absent() || self.skip_if.is_some_and(|skip| skip(value)) {
            return Ok(());
        }
        let name = self.named_by.map_or(self.name, |named_by| named_by(value));
        object.serialize_field(name, value)
    }

    /// Reads the member from a record.
    ///
    /// # Errors
    /// [`RecordError`] names the field that is missing or cannot be read.
    pub fn read_from(self, record: &Record) -> Result<T, RecordError>
    where
        T: Recorded,
    {
        let value = T::read_from(record, self.field)?;
        value
            .or_else(|| T::absent(self.default))
            .ok_or_else(|| RecordError::of(self.field))
    }

    /// The fields of records that hold the member.
    pub fn fields_of(self) -> Vec<&'static str>
    where
        T: Recorded,
    {
        T::fields_of(self.field)
    }

    /// What a request that has this value of the member makes of its field, or of several. `audited` names the member in
    /// audit entries.
    pub fn write_to(self, value: &T, audited: &'static str, changes: &mut Vec<FieldChange>)
    where
        T: Written,
    {
        if self.recorded {
            let change = FieldChange {
                member: self.name,
                audited,
                field: self.field,
                value: self.cleared.map(str::to_owned),
            };
            value.write_to(change, changes);
        }
    }

    /// The same for a member of an object that replaces another: what is absent is removed.
    pub fn replace(self, value: &T, mut change: FieldChange, changes: &mut Vec<FieldChange>)
    where
        T: Written,
    {
        change.field = self.field;
        match (self.recorded, value.is_absent()) {
            (false, _) => {}
            (true, true) => T::clear(change, changes),
            (true, false) => value.write_to(change, changes),
        }
    }

    /// The same for a member of an object that is removed.
    pub fn clear(self, mut change: FieldChange, changes: &mut Vec<FieldChange>)
    where
        T: Written,
    {
        change.field = self.field;
        T::clear(change, changes);
    }

    /// The schema of the member, unless the description leaves it out.
    pub(super) fn describe(&self, components: &mut Components) -> Option<Schema> {
        if !self.described {
            return None;
        }
        let schema = self.described_as.map(|schema| schema());
        let mut schema = schema.unwrap_or_else(|| match self.inline {
            true => Components::inline(|components| T::schema(&self.rules, components)),
            false => T::schema(&self.rules, components),
        });
        if let Some((default, to_schema)) = self.default.as_ref().zip(self.default_schema) {
            let default = to_schema(default);
            // An empty list is what everybody expects.
            if default != json!([]) {
                schema["default"] = default;
            }
        }
        if let Some((keyword, value)) = self.keyword {
            schema[keyword] = value();
        }
        Some(schema)
    }

    /// Whether the description requires the member.
    pub(super) fn required_by_description(self) -> bool {
        self.required && self.skip_if.is_none() && T::absent(self.default).is_none()
    }
}

impl<T: Field<Rules = Text>> Member<T> {
    options! {
        /// How many characters.
        chars(chars: impl Into<Bounds<usize>>) sets rules.chars = chars.into();
        /// How many characters, where the description says less than is enforced.
        unpublished_chars(chars: impl Into<Bounds<usize>>) sets rules.unpublished_chars = Some(chars.into());
        /// The treatment of blank texts.
        blank(blank: Blank) sets rules.blank = blank;
        /// `true`: white space at both ends is dropped, after the characters were counted.
        trimmed(trimmed: bool) sets rules.trimmed = trimmed;
        /// The form of the text.
        form(form: &'static Form) sets rules.form = Some(form);
    }
}

impl<T: Field<Rules = Range<N>>, N> Member<T> {
    options! {
        /// Least and greatest value.
        range(range: impl Into<Bounds<N>>) sets rules.published = range.into();
        /// Least and greatest value, where the description says less than is enforced.
        unpublished_range(range: impl Into<Bounds<N>>) sets rules.unpublished = Some(range.into());
    }
}

impl<T: Field<Rules = Items<R>>, R> Member<T> {
    options! {
        /// How many items.
        items(items: impl Into<Bounds<usize>>) sets rules.items = items.into();
        /// How many items, where the description says less than is enforced.
        unpublished_items(items: impl Into<Bounds<usize>>) sets rules.unpublished_items = Some(items.into());
        /// `true`: what occurs again is dropped.
        distinct(distinct: bool) sets rules.distinct = distinct;
        /// The rules for each item.
        each(each: R) sets rules.each = each;
    }
}

impl<T: Field<Rules = Entries<R>>, R> Member<T> {
    options! {
        /// How many entries.
        entries(entries: impl Into<Bounds<usize>>) sets rules.entries = entries.into();
        /// The rules for the value of each entry.
        values(each: R) sets rules.each = each;
    }
}

/// The schema of an object in the making.
#[derive(Debug)]
pub struct Described {
    name: &'static str,
    schema: Schema,
}

impl Described {
    /// An object without members yet, described by a doc comment. Its name is the last of `names`. If `Open` is among its
    /// `roles`, it may get further members.
    pub fn new(names: &[&'static str], doc: &str, roles: &[&str]) -> Self {
        let mut schema =
            json!({"type": "object", "description": description(doc), "properties": {}});
        if !roles.contains(&"Open") {
            schema["additionalProperties"] = json!(false);
        }
        let name = names[names.len() - 1];
        Self { name, schema }
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
