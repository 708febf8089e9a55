//! The connection URL: one string that names the topology, the nodes and the credentials.
//!
//! ```text
//! redis://[user[:password]@]host[:port][/db]                              one server
//! redis+unix:///path/to/socket[?db=0&user=…&pass=…]                       one server, Unix socket
//! /path/to/socket                                                         the same
//! redis+sentinel://[user[:password]@]host[:port],host[:port]/master[/db]  the master that Sentinel names
//!                  [?sentinel_user=…&sentinel_password=…]
//! redis+cluster://[user[:password]@]host[:port],host[:port]               Redis Cluster, some of its nodes
//! ```
//!
//! `rediss`, `rediss+sentinel` and `rediss+cluster` use TLS, to the Sentinels as well. `valkey` is a synonym of `redis`. User and password are percent-encoded. Default ports are 6379, for Sentinels 26379.

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion, TlsCertificates};

/// Where Redis is, and its topology. Holds credentials, so it has no `Debug`.
pub(crate) enum Topology {
    /// One server.
    Standalone(ConnectionInfo),
    /// The master that Sentinels name.
    Sentinel(WatchedMaster),
    /// Seeds of a cluster; each carries the credentials and TLS of all nodes.
    Cluster(Vec<ConnectionInfo>),
}

/// A master that Sentinels name.
pub(crate) struct WatchedMaster {
    pub sentinels: Vec<ConnectionInfo>,
    pub name: String,
    /// Credentials, database and TLS of the master; its address is a placeholder.
    pub template: ConnectionInfo,
}

/// Why a connection URL is refused. Never holds the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedisUrlError {
    /// The part before `://`.
    #[error(
        "unknown scheme; use redis://, rediss://, redis+unix://, redis+sentinel:// or redis+cluster://"
    )]
    Scheme,
    /// No host, or one that does not parse.
    #[error("host {0} of the list is missing or malformed")]
    Host(usize),
    /// The path of a Sentinel URL must name the master.
    #[error(
        "a Sentinel URL names the master after the hosts: redis+sentinel://host:26379/mymaster"
    )]
    Master,
    /// The database is not a number, or a cluster was given one.
    #[error("the database after the last `/` must be a number (a cluster has only database 0)")]
    Database,
    /// An unknown query parameter.
    #[error("unknown parameter `{0}`")]
    Parameter(String),
    /// A fragment, such as `#insecure`.
    #[error("no fragment is accepted; to trust a private authority set BUDGET_REDIS_TLS_CA_FILE")]
    Fragment,
    /// The TLS files are unusable.
    #[error("the TLS certificates are unusable: {0}")]
    Tls(String),
}

impl Topology {
    /// Reads a connection URL; `tls` holds a private authority and a client certificate, if any.
    pub(crate) fn parse(url: &str, tls: Option<&TlsCertificates>) -> Result<Self, RedisUrlError> {
        // A socket alone, as `redis-cli -s` takes it.
        let socket =
            url::Url::from_file_path(url).map(|path| format!("redis+unix://{}", path.path()));
        let url = socket.as_deref().unwrap_or(url);
        let (scheme, rest) = url.split_once("://").ok_or(RedisUrlError::Scheme)?;
        if rest.contains('#') {
            return Err(RedisUrlError::Fragment);
        }
        let scheme = scheme
            .replace("valkeys", "rediss")
            .replace("valkey", "redis");
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        if scheme == "redis+unix" {
            let info = format!("redis+unix://{rest}?{query}")
                .into_connection_info()
                .map_err(|_| RedisUrlError::Host(1))?;
            return Ok(Self::Standalone(with_resp3(info)));
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (base, kind) = scheme.split_once('+').unwrap_or((&scheme, ""));
        if !matches!(base, "redis" | "rediss") {
            return Err(RedisUrlError::Scheme);
        }
        let build = |credentials: &str, host: &str, port: u16, db: &str, position: usize| {
            node(base, credentials, host, port, db, tls, position)
        };
        let parameters: Vec<_> = url::form_urlencoded::parse(query.as_bytes()).collect();
        let known = |name: &str| {
            kind == "sentinel" && matches!(name, "sentinel_user" | "sentinel_password")
        };
        if let Some((name, _)) = parameters.iter().find(|(name, _)| !known(name)) {
            return Err(RedisUrlError::Parameter(name.to_string()));
        }
        let listed = || hosts.split(',').enumerate();
        match kind {
            "" => build(credentials, hosts, 6379, path, 1).map(Self::Standalone),
            "cluster" => {
                if !matches!(path, "" | "0") {
                    return Err(RedisUrlError::Database);
                }
                listed()
                    .map(|(i, host)| build(credentials, host, 6379, "", i + 1))
                    .collect::<Result<_, _>>()
                    .map(Self::Cluster)
            }
            "sentinel" => {
                let (master, db) = path.split_once('/').unwrap_or((path, ""));
                if master.is_empty() {
                    return Err(RedisUrlError::Master);
                }
                let value = |name: &str| {
                    let found = parameters.iter().find(|(key, _)| key == name);
                    found.map(|(_, value)| value.to_string())
                };
                let (user, password) = (value("sentinel_user"), value("sentinel_password"));
                let sentinels = listed()
                    .map(|(i, host)| {
                        let info = build("", host, 26379, "", i + 1)?;
                        let mut settings = info.redis_settings().clone();
                        if let Some(user) = &user {
                            settings = settings.set_username(user);
                        }
                        if let Some(password) = &password {
                            settings = settings.set_password(password);
                        }
                        // A Sentinel supports RESP3, but its push messages are not needed.
                        settings = settings.set_protocol(ProtocolVersion::RESP2);
                        Ok(info.set_redis_settings(settings))
                    })
                    .collect::<Result<_, _>>()?;
                Ok(Self::Sentinel(WatchedMaster {
                    sentinels,
                    name: master.to_owned(),
                    template: build(credentials, "master", 6379, db, 1)?,
                }))
            }
            _ => Err(RedisUrlError::Scheme),
        }
    }
}

/// One host of the list, with what all hosts share.
fn node(
    base: &str,
    credentials: &str,
    host: &str,
    default_port: u16,
    db: &str,
    tls: Option<&TlsCertificates>,
    position: usize,
) -> Result<ConnectionInfo, RedisUrlError> {
    if !db.is_empty() && db.parse::<u32>().is_err() {
        return Err(RedisUrlError::Database);
    }
    let at = if credentials.is_empty() { "" } else { "@" };
    let parsed = url::Url::parse(&format!("{base}://{credentials}{at}{host}/{db}"));
    let mut parsed = parsed.map_err(|_| RedisUrlError::Host(position))?;
    if parsed.host_str().is_none_or(str::is_empty) {
        return Err(RedisUrlError::Host(position));
    }
    if parsed.port().is_none() && parsed.set_port(Some(default_port)).is_err() {
        return Err(RedisUrlError::Host(position));
    }
    let info = parsed
        .into_connection_info()
        .map_err(|_| RedisUrlError::Host(position))?;
    let info = with_resp3(info);
    match tls {
        Some(certificates) if base == "rediss" => {
            let client = redis::Client::build_with_tls(info, certificates.clone())
                .map_err(|error| RedisUrlError::Tls(error.to_string()))?;
            Ok(client.get_connection_info().clone())
        }
        _ => Ok(info),
    }
}

/// Selects RESP3, because only with it the crate reports a broken connection at once.
fn with_resp3(info: ConnectionInfo) -> ConnectionInfo {
    let settings = info.redis_settings().clone();
    info.set_redis_settings(settings.set_protocol(ProtocolVersion::RESP3))
}

/// The same credentials, database and TLS at another address.
pub(crate) fn at_address(info: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let addr = match info.addr() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host: host.to_owned(),
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host.to_owned(), port),
    };
    info.clone().set_addr(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Topology, RedisUrlError> {
        Topology::parse(url, None)
    }

    #[test]
    fn a_plain_url_keeps_its_credentials_and_database() {
        let Ok(Topology::Standalone(info)) = parse("rediss://app:p%40ss@redis.example:7000/3")
        else {
            panic!("standalone");
        };
        assert_eq!(info.addr().to_string(), "redis.example:7000");
        assert!(matches!(
            info.addr(),
            ConnectionAddr::TcpTls {
                insecure: false,
                ..
            }
        ));
        assert_eq!(info.redis_settings().username(), Some("app"));
        assert_eq!(info.redis_settings().password(), Some("p@ss"));
        assert_eq!(info.redis_settings().db(), 3);
        assert_eq!(info.redis_settings().protocol(), ProtocolVersion::RESP3);
    }

    #[test]
    fn a_unix_socket_is_a_standalone_server() {
        let Ok(Topology::Standalone(info)) = parse("redis+unix:///run/redis.sock?db=2") else {
            panic!("standalone");
        };
        assert_eq!(info.addr().to_string(), "/run/redis.sock");
        assert_eq!(info.redis_settings().db(), 2);
        let Ok(Topology::Standalone(info)) = parse("/run/a folder/redis#1.sock") else {
            panic!("standalone");
        };
        assert_eq!(info.addr().to_string(), "/run/a folder/redis#1.sock");
    }

    #[test]
    fn a_sentinel_url_has_credentials_for_both() {
        let url = "redis+sentinel://app:one@s1,s2:7001/mymaster/1?sentinel_user=watch&sentinel_password=two";
        let Ok(Topology::Sentinel(master)) = parse(url) else {
            panic!("sentinel");
        };
        let WatchedMaster {
            sentinels,
            name,
            template: node,
        } = master;
        assert_eq!(name, "mymaster");
        let addresses: Vec<_> = sentinels.iter().map(|s| s.addr().to_string()).collect();
        assert_eq!(addresses, ["s1:26379", "s2:7001"]);
        assert_eq!(sentinels[0].redis_settings().username(), Some("watch"));
        assert_eq!(sentinels[0].redis_settings().password(), Some("two"));
        assert_eq!(node.redis_settings().password(), Some("one"));
        assert_eq!(node.redis_settings().db(), 1);
        assert_eq!(
            at_address(&node, "10.0.0.1", 1).addr().to_string(),
            "10.0.0.1:1"
        );
    }

    #[test]
    fn a_cluster_url_lists_seeds() {
        let Ok(Topology::Cluster(seeds)) = parse("valkeys+cluster://:pw@a:1,[::1]:2") else {
            panic!("cluster");
        };
        let addresses: Vec<_> = seeds.iter().map(|s| s.addr().to_string()).collect();
        assert_eq!(addresses, ["a:1", "::1:2"]);
        assert!(matches!(seeds[1].addr(), ConnectionAddr::TcpTls { .. }));
    }

    #[test]
    fn an_ambiguous_url_is_refused() {
        use RedisUrlError::{Database, Fragment, Host, Master, Parameter, Scheme};
        for (url, expected) in [
            ("http://localhost", Scheme),
            ("localhost:6379", Scheme),
            ("redis+ring://a", Scheme),
            ("redis://", Host(1)),
            ("redis+cluster://a,,b", Host(2)),
            ("redis+cluster://a/1", Database),
            ("redis://a/mymaster", Database),
            ("redis+sentinel://a", Master),
            ("rediss://a/#insecure", Fragment),
            ("redis://a?tls=no", Parameter("tls".into())),
        ] {
            assert_eq!(parse(url).err(), Some(expected), "{url}");
        }
    }
}
