//! Everything that needs a running Redis, in one binary: a folder per plane, a file per resource or operation.

mod admin;
mod dispatcher;
mod harness;
mod http;
mod project;
mod redis;
mod runtime;
mod tools;
