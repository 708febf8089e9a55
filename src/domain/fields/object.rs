//! The macro that declares an object once: its members, their bounds and descriptions, how it is read and written.

/// Declares a struct whose members are members of a JSON object.
///
/// ```text
/// object! {
///     /// Extends a reservation.
///     #[derive(Debug, Clone)]
///     pub struct Extension: Read + Serialize {
///         /// How far the deadline moves, in milliseconds.
///         pub extend_by_ms: i64 { range: 1..=86_400_000, default: 60_000 },
///         /// Why, for the record.
///         pub reason: Option<String> { chars: ..=256 },
///     }
///     check |request, object| {
///         if request.extend_by_ms == 7 {
///             object.refuse_member("extend_by_ms", "must not be 7");
///         }
///     }
/// }
/// ```
///
/// The options in braces are methods of [`Member`](super::Member); an option that the member's type does not know is a
/// compile error. The example expands to the struct with its comments and
///
/// ```text
/// impl Extension {
///     fn members() -> (Member<i64>, Member<Option<String>>) {
///         (
///             Member::new("extend_by_ms", "How far the deadline moves, in milliseconds.").range(1..=86_400_000).default(60_000),
///             Member::new("reason", "Why, for the record.").chars(..=256),
///         )
///     }
/// }
///
/// plain_field!(Extension, (), |(), components| { // Every object is described.
///     Described::new(&["Extension"], "Extends a reservation.", &["Serialize"]).refer(components, |described, components| {
///         let (extend_by_ms, reason) = Self::members();
///         described.member(extend_by_ms, components);
///         described.member(reason, components);
///     })
/// });
///
/// impl Read for Extension { // `Read`: requests have it.
///     fn read(value: Value<'_>, _: &()) -> Option<Self> {
///         value.object(|object| {
///             let (extend_by_ms, reason) = Self::members();
///             let extend_by_ms = object.read(extend_by_ms);
///             let reason = object.read(reason);
///             let request = Self { extend_by_ms: extend_by_ms?, reason: reason? };
///             (|request: &Self, object: &mut Object<'_>| …)(&request, object); // `check`: once every member is right.
///             Some(request)
///         })
///     }
/// }
///
/// impl serde::Serialize for Extension { // `Serialize`: responses have it.
///     fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
///         let mut object = serializer.serialize_struct("Extension", 2)?;
///         let (extend_by_ms, reason) = Self::members();
///         extend_by_ms.serialize_into(&self.extend_by_ms, &mut object)?;
///         reason.serialize_into(&self.reason, &mut object)?;
///         object.end()
///     }
/// }
/// ```
///
/// `ignore { member: Type }` before `check` names members that requests may have and that are not used; `unsent` declares members
/// that are described and that the service never sends.
///
/// Further roles:
///
/// - `Recorded` reads the object from a record (`from_record`), whose fields it names (`field_names`).
/// - `Written` returns how the object changes the fields of a record (`fields`).
/// - `Nested` makes a `Recorded` object the type of a member; its members are fields of the same record. `Optional` does the same for
///   an object that is absent where its first field is.
/// - `Json` stores the object in one field.
/// - `Open` describes an object that may get further members.
///
/// `struct Name as "Published"` publishes the schema under another name than the struct's.
macro_rules! object {
    (
        $(#[doc = $doc:expr])*
        $(#[derive($($derive:path),* $(,)?)])?
        $vis:vis struct $name:ident $(as $published:literal)? : $first:ident $(+ $role:ident)* {
            $(
                $(#[doc = $member_doc:expr])*
                $member_vis:vis $member:ident : $type:ty $({ $($option:ident : $value:expr),* $(,)? })?
            ),* $(,)?
        }
        $(unsent {
            $(
                $(#[doc = $unsent_doc:expr])*
                $unsent:ident : $unsent_type:ty $({ $($unsent_option:ident : $unsent_value:expr),* $(,)? })?
            ),* $(,)?
        })?
        $(ignore { $($ignored:ident : $ignored_type:ty),* $(,)? })?
        $(check $check:expr)?
    ) => {
        $(#[doc = $doc])*
        $(#[derive($($derive),*)])?
        $vis struct $name {
            $($(#[doc = $member_doc])* $member_vis $member: $type,)*
        }

        impl $name {
            #[allow(clippy::type_complexity, reason = "one type for each member")]
            fn members() -> ($($crate::domain::fields::Member<$type>,)*) {
                ($(
                    $crate::domain::fields::Member::<$type>::new(
                        stringify!($member),
                        concat!($($member_doc, "\n"),*),
                    )
                    $($(.$option($value))*)?,
                )*)
            }
        }

        $crate::domain::fields::plain_field!($name, (), |(), components| {
            let described = $crate::domain::fields::Described::new(
                &[stringify!($name) $(, $published)?],
                concat!($($doc, "\n"),*),
                &[$(stringify!($role)),*],
            );
            described.refer(components, |described, components| {
                let ($($member,)*) = Self::members();
                $(described.member($member, components);)*
                $($({
                    let unsent = $crate::domain::fields::Member::<Option<$unsent_type>>::new(
                        stringify!($unsent),
                        concat!($($unsent_doc, "\n"),*),
                    );
                    described.member(unsent $($(.$unsent_option($unsent_value))*)?, components);
                })*)?
            })
        });

        $crate::domain::fields::object!(
            @roles [$first $($role)*] $name [$($member)*] [$($check)?] [$($($ignored: $ignored_type),*)?]
        );
    };
    (@roles [$($role:ident)+] $name:ident $members:tt $check:tt $ignored:tt) => {
        $($crate::domain::fields::object!(@$role $name $members $check $ignored);)+
    };
    (@Read $name:ident [$($member:ident)*] [$($check:expr)?] [$($ignored:ident : $ignored_type:ty),*]) => {
        impl $crate::domain::fields::Read for $name {
            fn read(value: $crate::domain::fields::Value<'_>, _: &()) -> Option<Self> {
                value.object(|object| {
                    let ($($member,)*) = Self::members();
                    $(let $member = object.read($member);)*
                    $(object.read($crate::domain::fields::Member::<Option<$ignored_type>>::new(stringify!($ignored), ""));)*
                    let request = Self { $($member: $member?),* };
                    $(
                        let check: fn(&Self, &mut $crate::domain::fields::Object<'_>) = $check;
                        check(&request, object);
                    )?
                    Some(request)
                })
            }
        }
    };
    (@Serialize $name:ident [$($member:ident)*] $check:tt $ignored:tt) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                use serde::ser::SerializeStruct as _;
                let count = [$(stringify!($member)),*].len();
                let mut object = serializer.serialize_struct(stringify!($name), count)?;
                let ($($member,)*) = Self::members();
                $($member.serialize_into(&self.$member, &mut object)?;)*
                object.end()
            }
        }
    };
    (@Recorded $name:ident [$($member:ident)*] $check:tt $ignored:tt) => {
        impl $name {
            /// Reads the stored fields.
            ///
            /// # Errors
            /// Names the field that is missing or cannot be read.
            pub fn from_record(
                record: &$crate::domain::record::Record,
            ) -> Result<Self, $crate::domain::record::RecordError> {
                let ($($member,)*) = Self::members();
                Ok(Self { $($member: $member.read_from(record)?,)* })
            }

            /// Names of the stored fields.
            pub fn field_names() -> Vec<&'static str> {
                let ($($member,)*) = Self::members();
                [$($member.fields_of(),)*].concat()
            }
        }
    };
    (@Written $name:ident [$($member:ident)*] $check:tt $ignored:tt) => {
        impl $name {
            /// How the fields of the record change. An absent member changes nothing.
            pub fn fields(&self) -> Vec<$crate::domain::record::FieldChange> {
                let ($($member,)*) = Self::members();
                let mut changes = Vec::new();
                $($member.write_to(&self.$member, concat!("metadata.", stringify!($member)), &mut changes);)*
                changes
            }
        }
    };
    (@Nested $name:ident $members:tt $check:tt $ignored:tt) => {
        $crate::domain::fields::object!(@nested $name $members |_, _| true);
    };
    (@Optional $name:ident $members:tt $check:tt $ignored:tt) => {
        $crate::domain::fields::object!(
            @nested $name $members
            |record, fields| fields.first().is_some_and(|field| record.get(field).is_some())
        );
    };
    (@nested $name:ident [$($member:ident)*] $is_there:expr) => {
        impl $crate::domain::record::Recorded for $name {
            fn read_from(
                record: &$crate::domain::record::Record,
                _: &str,
            ) -> Result<Option<Self>, $crate::domain::record::RecordError> {
                let is_there: fn(&$crate::domain::record::Record, &[&str]) -> bool = $is_there;
                let is_there = is_there(record, &Self::field_names());
                is_there.then(|| Self::from_record(record)).transpose()
            }

            fn fields_of(_: &'static str) -> Vec<&'static str> {
                Self::field_names()
            }
        }

        impl $crate::domain::record::Written for $name {
            fn write_to(
                &self,
                change: $crate::domain::record::FieldChange,
                changes: &mut Vec<$crate::domain::record::FieldChange>,
            ) {
                let ($($member,)*) = Self::members();
                $($member.replace(&self.$member, change.clone(), changes);)*
            }

            fn clear(
                change: $crate::domain::record::FieldChange,
                changes: &mut Vec<$crate::domain::record::FieldChange>,
            ) {
                let ($($member,)*) = Self::members();
                $($member.clear(change.clone(), changes);)*
            }
        }
    };
    (@Json $name:ident $members:tt $check:tt $ignored:tt) => {
        $crate::domain::record::stored_text!($name, $crate::domain::fields::Read::parse_stored, |object| {
            Some($crate::domain::fields::Read::to_json(object))
        });
    };
    (@Open $name:ident $members:tt $check:tt $ignored:tt) => {};
}
pub(crate) use object;
