//! Where the service of the operator's commands is, and its admin key: given, or of a profile, which `login` writes and `logout`
//! removes.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::call::{Call, CallError};
use super::client::{Client, KEY, RESPONSE_LIMIT, base_url, http, printable};
use super::profile::{DEFAULT, Profile, ProfileName};
use crate::api::dialect::headers::ADMIN_KEY;
use crate::api::operations::OperationId;
use crate::config::ConfigError;

/// Where a service is by default.
pub(super) const DEFAULT_URL: &str = "http://127.0.0.1:7878";

/// Where the service is, and its admin key.
#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(super) struct Connection {
    /// URL of the admin plane; without it that of the profile `default`, else http://127.0.0.1:7878
    #[arg(long, global = true, env = "BUDGET_URL", value_name = "URL", value_parser = base_url)]
    url: Option<Url>,
    #[command(flatten)]
    credentials: Credentials,
    /// URL and key that `budget-authority login` stored under this name
    #[arg(long, global = true, env = "BUDGET_PROFILE", value_name = "NAME", value_parser = ProfileName::parse)]
    profile: Option<ProfileName>,
    /// How long to wait for a response, in seconds
    #[arg(long, global = true, value_name = "SECONDS", default_value = "30", value_parser = clap::value_parser!(u16).range(1..))]
    timeout: u16,
}

/// An admin key, and the authorities that vouch for the service.
#[derive(Debug, Args)]
pub(super) struct Credentials {
    /// Admin key; better read from a file or stored by `budget-authority login`
    #[arg(long, global = true, env = KEY.value, value_name = "KEY", hide_env_values = true)]
    admin_key: Option<SecretString>,
    /// File with the admin key, in place of BUDGET_ADMIN_KEY
    #[arg(long, global = true, env = KEY.file, value_name = "FILE")]
    admin_key_file: Option<PathBuf>,
    /// PEM file with the authorities that signed the service's certificate; replaces the system's
    #[arg(long, global = true, env = "BUDGET_CA_FILE", value_name = "FILE")]
    pub ca_file: Option<PathBuf>,
}

impl Credentials {
    /// The admin key, if it is given.
    ///
    /// # Errors
    /// [`CallError::Usage`] when it is given twice, or the file cannot be used.
    pub fn key(&self) -> Result<Option<SecretString>, CallError> {
        let key = KEY.text(self.admin_key.clone(), self.admin_key_file.clone());
        let (key, _) = key.map_err(|error| {
            let hint = match error {
                ConfigError::Contradiction { .. } => {
                    "; `unset BUDGET_ADMIN_KEY` or `unset BUDGET_ADMIN_KEY_FILE`, if it is not given as a flag"
                }
                _ => "",
            };
            CallError::Usage(format!("{error}{hint}"))
        })?;
        Ok(Some(key).filter(|key| !key.expose_secret().is_empty()))
    }
}

impl Connection {
    /// A client with these settings.
    ///
    /// # Errors
    /// [`CallError::Usage`] without a key, with a profile and a service besides, or when a file cannot be used.
    pub fn client(self) -> Result<Client, CallError> {
        let (url, key) = service(self.profile.as_ref(), self.url, self.credentials.key()?)?;
        let timeout = Duration::from_secs(self.timeout.into());
        let http = http(&url, timeout, self.credentials.ca_file)?;
        Client::over(http, url, &ADMIN_KEY, &key)
    }
}

/// URL and key of the service. A named profile excludes all other settings, so that no command reaches another service than the
/// named one, and no key is sent to another service.
fn service(
    named: Option<&ProfileName>,
    url: Option<Url>,
    key: Option<SecretString>,
) -> Result<(Url, SecretString), CallError> {
    let usage = |text: String| Err(CallError::Usage(text));
    if let Some(name) = named {
        let name_text = name.as_str();
        if url.is_some() || key.is_some() {
            return usage(format!(
                "profile `{name_text}` has a URL and a key: give the profile, or --url and --admin-key. `unset BUDGET_PROFILE`, \
                 or BUDGET_URL, BUDGET_ADMIN_KEY and BUDGET_ADMIN_KEY_FILE, if they are not given as flags"
            ));
        }
        return match Profile::read(name)? {
            Some(profile) => Ok((profile.url, profile.key)),
            None => usage(format!(
                "there is no profile `{name_text}`; `budget-authority login --profile {name_text}` makes it"
            )),
        };
    }
    if let Some(key) = key {
        let local = || base_url(DEFAULT_URL).map_err(CallError::Usage);
        return Ok((url.map_or_else(local, Ok)?, key));
    }
    let default = ProfileName::parse(DEFAULT).map_err(CallError::Usage)?;
    match Profile::read(&default)? {
        Some(profile) if url.is_none() || url.as_ref() == Some(&profile.url) => {
            Ok((profile.url, profile.key))
        }
        _ => usage(
            "--admin-key, BUDGET_ADMIN_KEY or BUDGET_ADMIN_KEY_FILE is required, or a profile: `budget-authority login`"
                .to_owned(),
        ),
    }
}

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

/// Removes the profile.
///
/// # Errors
/// [`CallError::Usage`] when it cannot be removed.
pub fn logout(args: &LogoutArgs) -> Result<(), CallError> {
    let name = args.profile.as_str();
    // One that cannot be read is removed as well.
    let profile = Profile::read(&args.profile).ok().flatten();
    let key = named(profile.and_then(|profile| profile.key_name).as_deref());
    match Profile::remove(&args.profile)? {
        true => eprintln!("removed profile `{name}`; the key{key} stays valid"),
        false => eprintln!("there is no profile `{name}`"),
    }
    Ok(())
}

/// The operator's name for a key, after the word.
fn named(key_name: Option<&str>) -> String {
    key_name.map_or_else(String::new, |name| format!(" `{name}`"))
}

/// Checks the key with the service, then writes the profile.
///
/// # Errors
/// [`CallError::Usage`] without a key, or when the profile cannot be written; otherwise those of the request.
pub async fn login(args: LoginArgs) -> Result<(), CallError> {
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

/// The first line of standard input; on a terminal it is prompted for, and not shown.
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
