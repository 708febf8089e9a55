//! The commands of developers and operators, as they are written on a command line.

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{ServeArgs, StoreArgs};
use crate::tools::bench::BenchArgs;
use crate::tools::connection::{LoginArgs, LogoutArgs};
use crate::tools::dev::DevArgs;
use crate::tools::evidence::EvidenceVerifyArgs;
use crate::tools::files::{ApplyArgs, DiffArgs, ExportArgs};
use crate::tools::health::HealthArgs;
use crate::tools::keys::{GenerateArgs, LocateArgs, SizesArgs};
use crate::tools::limits::LimitsArgs;
use crate::tools::operator::AdminArgs;
use crate::tools::verify::VerifyArgs;
use crate::tools::verify::audit::AuditVerifyArgs;

/// Hard budget limits for autonomous agents: reserve before acting, commit what it cost, release the rest.
#[derive(Parser)]
#[command(version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Every command.
#[derive(Subcommand)]
pub enum Command {
    /// Serve the API: the runtime plane and the admin plane
    Serve(Box<ServeArgs>),
    /// Run a development stack: a private Redis, the API, the background work and a demo tenant
    Dev(Box<DevArgs>),
    /// Operate a running service: tenants, API keys, budgets, policies, reservations, events, audit
    Admin(Box<AdminArgs>),
    /// Make tenants, budgets, policies, webhooks and API keys of a running service as a file says
    Apply(Box<ApplyArgs>),
    /// Show what `apply` would change
    Diff(Box<DiffArgs>),
    /// Write what a running service has as such a file
    Export(Box<ExportArgs>),
    /// Check an admin key, and store it with the URL of its service in a profile for `admin`
    Login(LoginArgs),
    /// Remove a profile
    Logout(LogoutArgs),
    /// Measure a running service, then check its ledgers
    Bench(Box<BenchArgs>),
    /// Ask processes whether they are healthy, as a container's health check or until they are
    Health(HealthArgs),
    /// Show the limits of the API that are settings, and their values in this environment
    Limits(LimitsArgs),
    /// Generate keys for the settings; find and measure keys in Redis
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Verify the ledgers in Redis
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Print a shell's completion script
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Verify the audit logs in Redis
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Verify signed evidence, without a connection to Redis
    #[command(subcommand)]
    Evidence(EvidenceCommand),
}

/// Commands on evidence.
#[derive(Subcommand)]
pub enum EvidenceCommand {
    /// Find out whether an envelope is authentic
    Verify(EvidenceVerifyArgs),
}

/// Commands on audit logs.
#[derive(Subcommand)]
pub enum AuditCommand {
    /// Prove that no entry was altered, dropped or inserted. Exit code: 0 proved, 1 disproved, 2 unknown
    Verify(OnStore<AuditVerifyArgs>),
}

/// Commands on ledgers.
#[derive(Subcommand)]
pub enum LedgerCommand {
    /// Recompute every ledger from its records. Exit code: 0 all right, 1 something differs, 2 unknown
    Verify(OnStore<VerifyArgs>),
}

/// Settings of a command that reads Redis, and where Redis is.
#[derive(Args)]
pub struct OnStore<A: Args> {
    /// What to look at.
    #[command(flatten)]
    pub args: A,
    /// Where.
    #[command(flatten)]
    pub store: StoreArgs,
}

/// Commands on keys.
#[derive(Subcommand)]
pub enum KeysCommand {
    /// Print a random key for a setting
    Generate(GenerateArgs),
    /// Show the partition, the cluster slot and the keys of a tenant, without a connection to Redis
    Locate(LocateArgs),
    /// Show the keys in Redis that name a tenant, with type, entries and memory; or what each tenant takes, the most first
    Sizes(OnStore<SizesArgs>),
}
