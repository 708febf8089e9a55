//! `budget-authority login` and `logout`: keep the URL and an admin key of a service in a profile.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use super::call::Call;
use super::client::{KEY, base_url, printable};
use super::client_error::CallError;
use super::connection::{Connection, DEFAULT_URL};
use super::profile::{DEFAULT, Profile, ProfileName};
use crate::api::operations::OperationId;

/// Settings of `budget-authority login`.
#[derive(Debug, Args)]
pub struct LoginArgs {
    /// Name of the profile
    #[arg(long, env = "BUDGET_PROFILE", value_name = "NAME", default_value = DEFAULT, value_parser = ProfileName::parse)]
    profile: ProfileName,
    /// URL of the admin plane
    #[arg(long, env = "BUDGET_URL", value_name = "URL", default_value = DEFAULT_URL, value_parser = base_url)]
    url: Url,
    /// What you call the key, such as its name in BUDGET_ADMIN_KEYS; `login` and `logout` show it
    #[arg(long, value_name = "NAME")]
    key_name: Option<String>,
    /// Admin key; better read from a file, or typed when it is asked for
    #[arg(
        long,
        env = "BUDGET_ADMIN_KEY",
        value_name = "KEY",
        hide_env_values = true
    )]
    admin_key: Option<SecretString>,
    /// File with the admin key
    #[arg(long, env = "BUDGET_ADMIN_KEY_FILE", value_name = "FILE")]
    admin_key_file: Option<PathBuf>,
    /// PEM file with the authorities that signed the service's certificate; replaces the system's
    #[arg(long, env = "BUDGET_CA_FILE", value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Settings of `budget-authority logout`.
#[derive(Debug, Args)]
pub struct LogoutArgs {
    /// Name of the profile
    #[arg(long, env = "BUDGET_PROFILE", value_name = "NAME", default_value = DEFAULT, value_parser = ProfileName::parse)]
    profile: ProfileName,
}

/// Checks the key with the service, then writes the profile. Exit codes as those of `admin`.
pub async fn login(args: LoginArgs) -> ExitCode {
    ended(log_in(args).await)
}

/// Removes the profile.
pub fn logout(args: &LogoutArgs) -> ExitCode {
    let name = args.profile.as_str();
    // One that cannot be read is removed as well.
    let profile = Profile::read(&args.profile).ok().flatten();
    let key = named(profile.and_then(|profile| profile.key_name).as_deref());
    ended(
        Profile::remove(&args.profile).map(|was_there| match was_there {
            true => eprintln!("removed profile `{name}`; the key{key} stays valid"),
            false => eprintln!("there is no profile `{name}`"),
        }),
    )
}

/// What the operator calls a key, behind the word.
fn named(key_name: Option<&str>) -> String {
    key_name.map_or_else(String::new, |name| format!(" `{name}`"))
}

fn ended(outcome: Result<(), CallError>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(error.exit_code())
        }
    }
}

async fn log_in(args: LoginArgs) -> Result<(), CallError> {
    let given = args.admin_key.filter(|key| !key.expose_secret().is_empty());
    let in_file = KEY.read(given.is_some(), args.admin_key_file);
    let in_file = in_file.map_err(|error| CallError::Usage(error.to_string()))?;
    let key = match in_file.or(given) {
        Some(key) => key,
        None => typed_key()?,
    };
    let profile = Profile {
        url: args.url,
        key_name: args.key_name,
        key,
    };
    let client = Connection::to(&profile, args.ca_file)?;
    let list = Call::of(OperationId::ListTenants).with("limit", Some(1));
    client.send(&list).await?;
    let path = profile.write(&args.profile)?;
    let (name, url) = (args.profile.as_str(), printable(&profile.url));
    let key = named(profile.key_name.as_deref());
    eprintln!(
        "profile `{name}` is for {url} and the key{key}, in {}",
        path.display()
    );
    if name != DEFAULT {
        eprintln!("use it with --profile {name} or BUDGET_PROFILE={name}");
    }
    Ok(())
}

/// The first line of standard input; on a terminal it is asked for, and not shown.
fn typed_key() -> Result<SecretString, CallError> {
    let stdin = io::stdin();
    let hidden = stdin.is_terminal().then(Hidden::begin);
    if hidden.is_some() {
        eprint!("Admin key: ");
        io::stderr().flush()?;
    }
    let mut line = String::new();
    stdin.lock().read_line(&mut line)?;
    if hidden.is_some() {
        eprintln!();
    }
    drop(hidden);
    match line.trim() {
        "" => {
            let text = "no admin key: type it, pipe it in, or name its file with --admin-key-file";
            Err(CallError::Usage(text.to_owned()))
        }
        key => Ok(key.to_owned().into()),
    }
}

/// While it lives, the terminal does not show what is typed.
struct Hidden {
    before: Option<libc::termios>,
}

#[expect(unsafe_code, reason = "the standard library has no such calls")]
impl Hidden {
    fn begin() -> Self {
        let mut settings = std::mem::MaybeUninit::<libc::termios>::uninit();
        // SAFETY: the call fills the structure, or fails.
        let read = unsafe { libc::tcgetattr(libc::STDIN_FILENO, settings.as_mut_ptr()) } == 0;
        // SAFETY: it was filled.
        let before = read.then(|| unsafe { settings.assume_init() });
        if let Some(mut silent) = before {
            silent.c_lflag &= !libc::ECHO;
            // SAFETY: a valid structure of this terminal.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &silent) };
        }
        Self { before }
    }
}

#[expect(unsafe_code, reason = "the standard library has no such calls")]
impl Drop for Hidden {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            // SAFETY: a valid structure of this terminal.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &before) };
        }
    }
}
