//! `budget-authority login` and `logout`: keep the URL and an admin key of a service in a profile.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::process::ExitCode;

use clap::Args;
use secrecy::SecretString;
use url::Url;

use super::call::Call;
use super::client::{Client, RESPONSE_LIMIT, base_url, http, printable};
use super::client_error::CallError;
use super::connection::{Credentials, DEFAULT_URL};
use super::profile::{DEFAULT, Profile, ProfileName};
use crate::api::dialect::headers::ADMIN_KEY;
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
    #[command(flatten)]
    credentials: Credentials,
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
    let removed = Profile::remove(&args.profile);
    ended(removed.map(|was_there| match was_there {
        true => eprintln!("removed profile `{name}`; the key{key} stays valid"),
        false => eprintln!("there is no profile `{name}`"),
    }))
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
    let key = args.credentials.key()?.map_or_else(typed_key, Ok)?;
    let http = http(&args.url, RESPONSE_LIMIT, args.credentials.ca_file)?;
    let client = Client::over(http, args.url.clone(), &ADMIN_KEY, &key)?;
    let list = Call::of(OperationId::ListTenants).with("limit", Some(1));
    client.send(&list).await?;
    let profile = Profile {
        url: args.url,
        key_name: args.key_name,
        key,
    };
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
    let (stdin, mut line) = (io::stdin(), String::new());
    if stdin.is_terminal() {
        let _hidden = Hidden::begin();
        eprint!("Admin key: ");
        stdin.lock().read_line(&mut line)?;
        eprintln!();
    } else {
        stdin.lock().read_line(&mut line)?;
    }
    match line.trim() {
        "" => {
            let text = "no admin key: type it, pipe it in, or name its file with --admin-key-file";
            Err(CallError::Usage(text.to_owned()))
        }
        key => Ok(key.to_owned().into()),
    }
}

/// Hides what is typed on the terminal until it is dropped.
struct Hidden {
    before: libc::termios,
}

#[expect(unsafe_code, reason = "the standard library has no such calls")]
impl Hidden {
    /// `None` where the terminal cannot be read.
    fn begin() -> Option<Self> {
        // SAFETY: integers and arrays of integers, which may be zero.
        let mut before: libc::termios = unsafe { std::mem::zeroed() };
        // SAFETY: a valid structure, which the call fills.
        if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) } != 0 {
            return None;
        }
        let mut silent = before;
        silent.c_lflag &= !libc::ECHO;
        // SAFETY: a valid structure of this terminal.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const silent) };
        Some(Self { before })
    }
}

#[expect(unsafe_code, reason = "the standard library has no such calls")]
impl Drop for Hidden {
    fn drop(&mut self) {
        // SAFETY: a valid structure of this terminal.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.before) };
    }
}
