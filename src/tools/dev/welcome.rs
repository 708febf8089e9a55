//! The welcome of the development stack: addresses, keys and commands to paste.

use std::net::SocketAddr;

use secrecy::{ExposeSecret, SecretString};

use super::demo::{HELPER, TENANT};
use super::folder::Folder;
use super::redis::PrivateRedis;
use crate::domain::dialect::Dialect;

/// Prints the welcome to standard output, with the keys, because the developer needs them.
pub(super) fn print(
    address: SocketAddr,
    dialect: Dialect,
    admin_key: &SecretString,
    demo: Option<&SecretString>,
    private: &Option<(PrivateRedis, Folder)>,
) {
    let words = dialect.words();
    let mut text = format!(
        "\nBudget authority is ready.\n\n  API        http://{address}\n  docs       http://{address}/docs\n  console    http://{address}/console\n  admin key  {}\n",
        admin_key.expose_secret()
    );
    if let Some((redis, folder)) = private {
        let kept = match folder.is_ephemeral() {
            true => "not kept",
            false => "kept",
        };
        let (socket, data) = (redis.socket().display(), folder.path().display());
        text += &format!("  Redis      redis-cli -s {socket}\n  data       {data} ({kept})\n");
    }
    if let Some(key) = demo {
        text += &format!(
            "  demo       tenant `{TENANT}`, key {}\n",
            key.expose_secret()
        );
        text += &lines(address, words.api_key_header, key.expose_secret());
        text += &variables(address, dialect, key.expose_secret());
    }
    let program = program();
    let key = quoted(admin_key.expose_secret());
    let admin =
        format!("  export BUDGET_URL=http://{address} BUDGET_ADMIN_KEY={key}\n  {program} admin");
    text += &format!("\nOperate it; `admin --help` shows what there is:\n{admin} overview\n");
    if let Some((redis, _)) = private {
        let socket = quoted(&redis.socket().display().to_string());
        let other = match dialect {
            Dialect::Service => String::new(),
            dialect => format!(" --dialect {dialect}"),
        };
        text += &format!(
            "\nVerify the ledgers in Redis; `audit verify` and `keys sizes` need the variable too:\n  \
             export BUDGET_REDIS_URL={socket}\n  {program} ledger verify{other}\n"
        );
        let (member, file) = (words.evidence_url_member, words.key_set_file);
        text += &format!(
            "\nVerify the signed evidence of a response, by the `{member}` in it:\n  {program} evidence verify URL \
             --jwks http://{address}/v1/.well-known/{file}\n"
        );
    }
    if demo.is_some() {
        text += &format!(
            "\nMake a key that can spend only as this agent:\n{admin} key create --tenant {TENANT} --name helper --scope {HELPER}\n"
        );
    }
    text += "\nCtrl-C stops everything.\n";
    println!("{text}");
}

/// How a shell calls this program, from any folder.
fn program() -> String {
    let own = std::env::current_exe().map(|path| path.display().to_string());
    quoted(&own.unwrap_or_else(|_| "budget-authority".to_owned()))
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/=:@%+,".contains(c);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Shell commands that work in this order, repeatedly.
fn lines(address: SocketAddr, header: &str, key: &str) -> String {
    let subject = r#""subject":{"tenant":"demo","app":"chat","agent":"helper"}"#;
    let action = r#""action":{"kind":"llm.completion","name":"any-model"}"#;
    let curl = format!("curl -sS -H '{header}: {key}' -H 'Content-Type: application/json'");
    let base = format!("http://{address}/v1");
    format!(
        r#"
Reserve 1,000 tokens, and keep the id:
  id=$({curl} {base}/reservations -d '{{"idempotency_key":"reserve-'$(date +%s)'",{subject},{action},"estimate":{{"unit":"TOKENS","amount":1000}}}}' | tee /dev/stderr | sed 's/.*"reservation_id":"\([^"]*\)".*/\1/'); echo

Commit what it cost, 400 tokens; the other 600 return:
  {curl} {base}/reservations/$id/commit -d '{{"idempotency_key":"commit-'$id'","actual":{{"unit":"TOKENS","amount":400}}}}'; echo

See the balances of all budgets, in tokens and in money:
  {curl} '{base}/balances?tenant=demo'; echo

Ask for more than there is, and be denied:
  {curl} {base}/reservations -d '{{"idempotency_key":"denied-'$(date +%s)'",{subject},{action},"estimate":{{"unit":"TOKENS","amount":9000000}}}}'; echo
"#
    )
}

/// The variables that the agents in `examples` read.
fn variables(address: SocketAddr, dialect: Dialect, key: &str) -> String {
    let words = dialect.words();
    let header = words.api_key_header;
    let mut text = format!(
        "\nSpend some money as an agent of the folder `examples`, in the language of your choice:\n  \
         export BUDGET_URL=http://{address} BUDGET_API_KEY={key} BUDGET_KEY_HEADER={header}\n"
    );
    if let Some(prefix) = words.client_variables {
        text += &format!(
            "  export {prefix}BASE_URL=http://{address} {prefix}API_KEY={key} {prefix}TENANT={TENANT}\n"
        );
    }
    text + "  examples/curl/agent.sh\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_one_word_in_a_shell() {
        for (text, expected) in [
            ("target/debug/x", "target/debug/x"),
            ("/a b/x", "'/a b/x'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn the_commands_use_the_dialect_and_valid_json() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7878));
        let text = lines(address, "X-Service-API-Key", "sk_live_x");
        let commands: Vec<_> = text.lines().filter(|line| line.starts_with("  ")).collect();
        assert_eq!(commands.len(), 4);
        for command in commands {
            assert!(
                command.contains("-H 'X-Service-API-Key: sk_live_x'"),
                "{command}"
            );
            if let Some((_, body)) = command.split_once("-d '") {
                let body = body.split("}}'").next().unwrap_or("").to_owned() + "}}";
                let body = body.replace("'$(date +%s)'", "1").replace("'$id'", "1");
                serde_json::from_str::<serde_json::Value>(&body).expect(&body);
            }
        }
    }
}
