//! A script's signature is data: KEYS, ARGV and replies are declared once, beside the calls of the script, by
//! [`signature!`](crate::store::signature::signature). What follows from a declaration:
//!
//! - a struct with a field per argument, and per name that only keys need; filled in, it is a call ([`ScriptCall`]), which
//!   [`Store::run`](crate::store::Store::run) sends;
//! - an enum of the replies, and [`Refused`] for the words that many scripts share; any other word is an error;
//! - the static [`Signature`], from which the header and the named locals of the `.lua` file are written, and the keys
//!   in `docs/redis.md` are listed. `make signatures` and `make docs` write them; tests fail while they differ.
//!
//! # Example
//!
//! ```ignore
//! signature! {
//!     /// Ends a hold.
//!     END: End -> EndReply = "fixture/end", flags "allow-oom";
//!     names { partition: Partition, key_id: &'a str }
//!     keys of partition {
//!         read api_key(key_id), tenant_key: tenant(tenant);
//!         write reservation(id), event_log: events(tenant, day), idempotency(tenant, digest) when digest;
//!     }
//!     builds { write budget(tenant) }
//!     args {
//!         day,
//!         tenant: &'a str,
//!         /// What the record names.
//!         id: &'a str,
//!         spent: Option<i64>,
//!         /// Names and values that the record keeps.
//!         kept: &'a [(&'a str, String)],
//!     }
//!     replies { unauthorized, clock, ended: Ended { now_ms: i64, left: Vec<String> } }
//!     writes "On ended: the record, the ledgers, the event."
//! }
//! ```
//!
//! It makes:
//!
//! ```ignore
//! pub static END: Signature = Signature { script: Script::new("fixture/end", include_str!(…), FRAGMENTS, true), … };
//!
//! pub(crate) struct End<'a> {
//!     pub partition: Partition,
//!     pub key_id: &'a str,
//!     pub digest: Option<&'a str>, // were it under `names`
//!     pub tenant: &'a str,
//!     pub id: &'a str,
//!     pub spent: Option<i64>,
//!     pub kept: &'a [(&'a str, String)],
//! }
//!
//! impl ScriptCall for End<'_> {
//!     type Outcome = EndReply;
//!     const SIGNATURE: &'static Signature = &END;
//!     fn on(&self, keys: &Keys, day: Day) -> Call {
//!         let keys = keys.of(self.partition);
//!         let mut call = Call::begin(&END.script, 4 + usize::from(self.digest.is_some()));
//!         call.push_key(&keys.api_key(self.key_id)); // tenant, reservation, events
//!         if self.digest.is_some() { call.push_key(&keys.idempotency(self.tenant, self.digest.unwrap_or(""))) }
//!         keys.prefix_of(&budget, &[self.tenant]).push(&mut call.command); // the day and its start, tenant, id, …
//!         call
//!     }
//! }
//!
//! pub(crate) enum EndReply { Ended { now_ms: i64, left: Vec<String> } }
//!
//! impl Outcome for EndReply {
//!     fn read(word: &str, reply: &mut Reply) -> Result<Option<Self>, StoreError> {
//!         if word == "ended" { Ok(Some(Self::Ended { now_ms: …, left: … })) } else { Ok(None) }
//!     }
//! }
//! ```
//!
//! and in the script, between markers, the header and
//!
//! ```lua
//! local api_key, tenant_key, reservation, event_log, idempotency = unpack(KEYS)
//! local budget_prefix, day, day_start_ms, tenant, id, spent = unpack(ARGV, 1, 6)
//! local kept_from = 7
//! ```
//!
//! # Grammar
//!
//! - `names`: what only keys are named by. `key_id of caller`, here or under `args`, is a field of the value `caller`, which
//!   many calls share; the call has no such field. `keys of`: the place of the catalogue; a partition is a field, or that `of`
//!   another value. Keys that the script writes follow `write`. A local name precedes the catalogue's where they differ.
//!   `when` names a field without whose value the key is left out; such keys come last. `each indexes: a | b` adds a list of
//!   keys, a field `indexes: Vec<String>`, behind all others; in Lua it begins at `KEYS[indexes_from]`.
//! - `change of tenant { … }` in place of `keys of`: what each change by an operator has, besides the keys between the braces. A
//!   field `change`, a `Change` of the admin plane; the keys `event_log`, `outbox`, `days`, `audit_log`, `chain`, `unsealed` and
//!   `short_lived` of the owner, and `idempotency` where the request has a key; the arguments `payload_hash` and `context` behind
//!   `day`, and `audit` at the end.
//! - `builds`: keys that the script names itself. While their slot moves, it waits instead of following `ASK`. `key(parts)` passes
//!   the beginning of their names, as the argument `<key>_prefix`; such arguments come first.
//! - `args`: a comment is the argument's note in the head of the script; one without it has the note of its name in
//!   `tests/it/project/signatures/header.rs`. `day` is two arguments, `day` and `day_start_ms`; the call is repeated with the
//!   day of the script's clock when it replies `clock`. A [`Counted`](crate::driver::script::Counted) list lies from
//!   `ARGV[name_from]` to `ARGV[name_to]`, a list at the end from `ARGV[name_from]` on.
//! - `-> Reply declared elsewhere`: the replies are some of those of another script, and their type is its.
//! - `replies`, in order of precedence: a word of [`Refused`] alone, or a word with its variant and fields. `replayed` alone
//!   is the stored words of the first outcome.

mod call;
mod declared;
mod fields;
pub mod refused;

pub use crate::driver::script::Counted;
pub use call::Outcome;
pub(crate) use call::{IsGiven, ScriptCall};
pub(crate) use declared::form_of;
pub use declared::{Access, ArgUse, KeyList, KeyUse, Signature, Word};
pub use fields::{Fields, FlatRecord};
pub(crate) use refused::Refused;

/// Declares a script; see the module.
macro_rules! signature {
    (
        $(#[doc = $summary:literal])+
        $static:ident: $call:ident -> $outcome:ident $($declared:ident elsewhere)? = $path:literal $(, flags $flags:literal)?;
        $(names { $($name:ident $(of $whole:ident)? $(: $name_type:ty)?),* $(,)? })?
        keys of $place:ident $(of $home:ident)? {
            $($access:ident $($local:ident $(: $key:ident)? ($($part:tt),*) $(when $when:ident)?),+;)*
        }
        $(each { $list_access:ident $list:ident: $($list_key:ident)|+ })?
        $(builds { $($build_access:ident $($built:ident $(($($built_part:ident),*))?),+);+ $(;)? })?
        args { $($(#[doc = $note:literal])* $arg:ident $(of $arg_whole:ident)? $(: $type:ty)?),* $(,)? }
        replies {
            $($word:ident $(: $variant:ident $({ $($field:ident: $field_type:ty),* $(,)? })?)?),* $(,)?
        }
        writes $writes:literal
    ) => {
        $(#[doc = $summary])+
        pub static $static: $crate::store::signature::Signature = $crate::store::signature::Signature {
            script: $crate::driver::script::Script::new(
                $path,
                include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/lua/", $path, ".lua")),
                $crate::store::fragments::FRAGMENTS,
                !<[&str]>::is_empty(&[$($(stringify!($($built)+)),+)?]),
            ),
            file: file!(),
            summary: concat!($($summary, "\n"),+),
            flags: concat!($($flags)?),
            keys: &[$($($crate::store::signature::KeyUse {
                local: stringify!($local),
                access: $crate::store::signature::signature!(@access $access),
                key: $crate::store::signature::signature!(@key $place $local $($key)?),
                parts: &[$(stringify!($part)),*],
                when: $crate::store::signature::signature!(@name $($when)?),
            },)+)*],
            list: $crate::store::signature::signature!(@list $place $($list_access $list $($list_key)+)?),
            builds: &[$($($((
                $crate::store::signature::signature!(@access $build_access),
                &$crate::store::keys::$place::$built,
            ),)+)+)?],
            args: $call::ARGS,
            by_day: $(matches!(stringify!($arg).as_bytes(), b"day") ||)* false,
            replies: &[$($crate::store::signature::signature!(
                @word $word $(: $variant $({ $($field),* })?)?
            )),*],
            writes: $writes,
        };

        $(#[doc = $summary])+
        pub(crate) struct $call<'a> {
            $($($(pub $name: $name_type,)?)*)?
            $(pub $list: $crate::store::signature::signature!(@keys $($list_key)+),)?
            $($(pub $arg: $type,)?)*
        }

        /// The name alone: some arguments are secrets.
        impl std::fmt::Debug for $call<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($call))
            }
        }

        impl<'a> $call<'a> {
            const ARGS: &'static [$crate::store::signature::ArgUse] = &[
                $($($($($crate::store::signature::ArgUse {
                    local: concat!(stringify!($built), "_prefix"),
                    form: $crate::driver::script::Form::One("prefix"),
                    key: Some((&$crate::store::keys::$place::$built, &[$(stringify!($built_part)),*])),
                    note: "",
                },)?)+)+)?
                $($crate::store::signature::ArgUse {
                    local: stringify!($arg),
                    form: $crate::store::signature::signature!(@form $call $arg $(of $arg_whole)? $(: $type)?),
                    key: None,
                    note: concat!($($note),*),
                },)*
            ];
        }

        impl $crate::store::signature::ScriptCall for $call<'_> {
            type Outcome = $outcome;
            const SIGNATURE: &'static $crate::store::signature::Signature = &$static;

            #[allow(unused_variables, unused_mut, reason = "not every script has keys of a day, or arguments")]
            fn on(
                &self,
                keys: &$crate::store::keys::Keys,
                day: $crate::driver::clock::Day,
            ) -> $crate::driver::call::Call {
                let keys = $crate::store::signature::signature!(@place $place $($home)? keys self);
                $($($crate::store::signature::signature!(@let self $name $(of $whole)?);)*)?
                $($crate::store::signature::signature!(@let self $arg $(of $arg_whole)? $(: $type)?);)*
                let given = 0_usize
                    $($(+ usize::from(true $(&& $crate::store::signature::IsGiven::is_given($when))?))+)*
                    $(+ self.$list.len())?;
                let mut call = $crate::driver::call::Call::begin(&$static.script, given);
                $($(
                    if true $(&& $crate::store::signature::IsGiven::is_given($when))? {
                        let key = $crate::store::signature::signature!(@build keys day $local $(: $key)? ($($part),*));
                        call.push_key(&key);
                        keys.reuse(key);
                    }
                )+)*
                $(self.$list.iter().for_each(|key| call.push_key(key));)?
                $($($($($crate::driver::script::Argument::push(
                    &keys.prefix_of(
                        &$crate::store::keys::$place::$built,
                        &[$($built_part as &dyn $crate::store::keys::KeySegment),*],
                    ),
                    &mut call.command,
                );)?)+)+)?
                $($crate::store::signature::signature!(@push call day $arg);)*
                call
            }
        }

        $crate::store::signature::signature!(@outcome [$($declared)?] $outcome { $($(
            $word: $variant $({ $($field: $field_type),* })?,
        )?)* });
    };
    (
        $(#[doc = $summary:literal])+
        $static:ident: $call:ident -> $outcome:ident = $path:literal $(, flags $flags:literal)?;
        $(names { $($names:tt)* })?
        change of $owner:ident { $($keys:tt)* }
        args { day, $($args:tt)* }
        $($rest:tt)*
    ) => {
        $crate::store::signature::signature! {
            $(#[doc = $summary])+
            $static: $call -> $outcome = $path $(, flags $flags)?;
            names { $($($names)*,)? change: &'a Change<'a>, digest of change }
            keys of partition of $owner {
                $($keys)*
                write event_log: events($owner, day), outbox(), days(), audit_log: audit($owner, day), chain($owner), unsealed(),
                    short_lived($owner), idempotency($owner, digest) when digest;
            }
            args { day, payload_hash of change, context of change, $($args)* audit of change }
            $($rest)*
        }
    };
    (@outcome [declared] $outcome:ident $words:tt) => {};
    (@outcome [] $outcome:ident { $($word:ident: $variant:ident $({ $($field:ident: $field_type:ty),* })?,)* }) => {
        /// The reply of the script; see its declaration.
        #[allow(missing_docs, private_interfaces, reason = "the names are those of the declaration")]
        pub enum $outcome {
            $($variant $({ $($field: $field_type),* })?,)*
        }

        /// The word alone: some fields are secrets.
        impl std::fmt::Debug for $outcome {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$variant $({ $($field: _),* })? => stringify!($variant),)*
                })
            }
        }

        impl $crate::store::signature::Outcome for $outcome {
            #[allow(unused_variables, reason = "not every reply has fields")]
            fn read(
                word: &str,
                reply: &mut $crate::driver::reply::Reply,
            ) -> Result<Option<Self>, $crate::driver::error::StoreError> {
                $(
                    if word == stringify!($word) {
                        return Ok(Some(Self::$variant $({
                            $($field: $crate::driver::reply::FromReply::from_reply(reply)?),*
                        })?));
                    }
                )*
                Ok(None)
            }
        }
    };
    (@access read) => { $crate::store::signature::Access::Read };
    (@access write) => { $crate::store::signature::Access::Write };
    (@key $place:ident $local:ident) => { &$crate::store::keys::$place::$local };
    (@key $place:ident $local:ident $key:ident) => { &$crate::store::keys::$place::$key };
    (@keys $($key:ident)+) => { Vec<String> };
    (@name) => { None };
    (@name $name:ident) => { Some(stringify!($name)) };
    (@list $place:ident) => { None };
    (@list $place:ident $access:ident $local:ident $($key:ident)+) => {
        Some($crate::store::signature::KeyList {
            local: stringify!($local),
            access: $crate::store::signature::signature!(@access $access),
            keys: &[$(&$crate::store::keys::$place::$key),+],
        })
    };
    (@word $word:ident) => { $crate::store::signature::refused::words::$word };
    (@word $word:ident: $variant:ident $({ $($field:ident),* })?) => {
        $crate::store::signature::Word {
            word: stringify!($word),
            fields: &[$($(stringify!($field)),*)?],
        }
    };
    (@place partition $home:ident $keys:ident $self:ident) => { $keys.of($self.$home.partition()) };
    (@place partition $keys:ident $self:ident) => { $keys.of($self.partition) };
    (@place $place:ident $keys:ident $self:ident) => { $keys };
    (@let $self:ident day) => {};
    (@let $self:ident $name:ident of $whole:ident) => { let $name = &$self.$whole.$name; };
    (@let $self:ident $name:ident $(: $type:ty)?) => { let $name = &$self.$name; };
    (@part $day:ident day) => { $day };
    (@part $day:ident $part:ident) => { $part };
    (@build $keys:ident $day:ident $key:ident ($($part:tt),*)) => {
        $keys.$key($($crate::store::signature::signature!(@part $day $part)),*)
    };
    (@build $keys:ident $day:ident $local:ident: $key:ident ($($part:tt),*)) => {
        $keys.$key($($crate::store::signature::signature!(@part $day $part)),*)
    };
    (@form $call:ident day) => { <$crate::driver::clock::Day as $crate::driver::script::Argument>::FORM };
    (@form $call:ident $arg:ident of $whole:ident) => {
        $crate::store::signature::form_of(|call: &$call<'static>| &call.$whole.$arg)
    };
    (@form $call:ident $arg:ident: $type:ty) => { <$type as $crate::driver::script::Argument>::FORM };
    (@push $call:ident $day:ident day) => {
        $crate::driver::script::Argument::push(&$day, &mut $call.command);
        $crate::driver::script::Argument::push(&$day.start_ms(), &mut $call.command);
    };
    (@push $call:ident $day:ident $arg:ident) => {
        $crate::driver::script::Argument::push($arg, &mut $call.command)
    };
}
pub(crate) use signature;

#[cfg(test)]
mod tests {
    use crate::domain::api_key::secret::KeyId;
    use crate::domain::caller::ScriptCaller;
    use crate::domain::ids::TenantId;
    use crate::driver::call::Call;
    use crate::store::admin::Change;
    use crate::store::admin::api_keys::{CreateApiKey, CreateApiKeyReply};
    use crate::store::deployment::{META, Meta, MetaReply};
    use crate::store::signature::Counted;

    const SECRET: &str = "nobody-reads-this";

    #[test]
    fn a_debug_print_of_a_call_or_reply_shows_no_secret() {
        let key_id = KeyId::parse("key_000_abcdefghij12").expect("an id");
        let change = Change {
            context: String::new(),
            audit: Vec::new(),
            payload_hash: "",
            digest: None,
        };
        let create = CreateApiKey {
            change: &change,
            tenant: &TenantId::parse("acme").expect("an id"),
            key_id: &key_id,
            key_hash: SECRET,
            requested_expires_at_ms: None,
            name: "",
            permissions: "",
            sealed: SECRET,
            registered_ms: 0,
            limit: 0,
            fields: Counted(&[("signing_secret", SECRET.to_owned())]),
        };
        let meta = Meta {
            layout: 1,
            partitions: 1024,
            secret: SECRET,
            dialect: "service",
            may_raise: false,
        };
        let stored = MetaReply::Meta {
            layout: None,
            partitions: None,
            secret: Some(SECRET.to_owned()),
            dialect: None,
            usage_from_ms: None,
        };
        let caller = ScriptCaller {
            key_hash: SECRET,
            ..ScriptCaller::TRUSTED
        };
        let replayed = CreateApiKeyReply::Taken;
        let encoded = Call::new(&META.script, &["key"]).with(SECRET);
        let printed = format!("{create:?} {meta:?} {stored:?} {caller:?} {replayed:?} {encoded:?}");
        assert!(!printed.contains(SECRET), "{printed}");
        assert!(printed.starts_with("CreateApiKey Meta Meta "), "{printed}");
    }
}
