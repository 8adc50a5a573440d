//! The secure port: address, certificates, TLS, who may read what.
//!
//! Source: `apiserver/pkg/server/options` `SecureServingOptions`, `DelegatingAuthenticationOptions`,
//! `DelegatingAuthorizationOptions`; cipher names as `component-base/cli/flag/ciphersuites_flag.go`, curves
//! as `curves_flag.go` there.

use crate::server::Http2;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use super::flags::{AuthenticationFlags, AuthorizationFlags, ServingFlags};
use super::values::{Reader, list, list_or, text};

/// kube-scheduler's secure port.
const DEFAULT_PORT: u16 = 10259;

/// Time that answers of reviews are kept.
const DEFAULT_TTL: Duration = Duration::from_secs(10);

/// Names of the files in `--cert-dir`.
const PAIR_NAME: &str = "kube-scheduler";

/// Cipher suites of TLS 1.2 that are offered, by Go's names.
const OFFERED: [&str; 8] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Suites of TLS 1.3, which Go offers whatever the list says; so do we.
const TLS13: [&str; 3] = [
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
];

/// Suites that Go knows and we do not offer: without forward secrecy or authenticated encryption.
const NOT_OFFERED: [&str; 15] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];

/// Groups of key exchange that are offered, by their IANA numbers: P-256, P-384 and X25519.
const OFFERED_CURVES: [u16; 3] = [23, 24, 29];

/// Groups that Go knows and we do not offer: P-521 and the hybrids with ML-KEM.
const NOT_OFFERED_CURVES: [u16; 4] = [25, 4587, 4588, 4589];

/// The secure port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Serving {
    /// Where to listen.
    pub(crate) address: SocketAddr,
    /// The certificate; `None`: a self-signed one is made.
    pub(crate) certificate: Option<Certificate>,
    /// Certificates for some names.
    pub(crate) sni_certificates: Vec<Certificate>,
    /// Lowest TLS version.
    pub(crate) min_version: TlsVersion,
    /// Suites of TLS 1.2 by Go's names; empty: all that are offered.
    pub(crate) cipher_suites: Vec<String>,
    /// Groups of key exchange by their IANA numbers; empty: all that are offered.
    pub(crate) curves: Vec<u16>,
    /// Whether and how HTTP/2 is spoken.
    pub(crate) http2: Http2,
    /// Whether to set `SO_REUSEPORT`.
    pub(crate) share_port: bool,
}

/// A certificate chain with its key, as PEM files that are read again when they change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Certificate {
    /// The chain.
    pub(crate) cert_file: PathBuf,
    /// The key.
    pub(crate) key_file: PathBuf,
    /// Names that it is for; empty: those in the certificate. `*.example.com` stands for one label.
    pub(crate) names: Vec<String>,
}

/// TLS versions that are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TlsVersion {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Who a client of the secure port is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authentication {
    /// Kubeconfig of the API server that reviews tokens; `None`: clients are anonymous when out of cluster.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Whether the cluster's ConfigMap with CAs is left alone.
    pub(crate) skip_lookup: bool,
    /// Whether to go on when that ConfigMap cannot be read.
    pub(crate) tolerate_lookup_failure: bool,
    /// Time that an answer about a token is kept.
    pub(crate) token_cache_ttl: Duration,
    /// CA of client certificates; `None`: the ConfigMap's.
    pub(crate) client_ca_file: Option<PathBuf>,
    /// Proxies that name the user in headers; `None`: the ConfigMap's.
    pub(crate) request_header: Option<RequestHeader>,
}

/// Proxies that name the user in headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestHeader {
    /// CA of the proxies.
    pub(crate) client_ca_file: PathBuf,
    /// Their common names; empty: any that the CA signed.
    pub(crate) allowed_names: Vec<String>,
    /// Headers with the user's name.
    pub(crate) username_headers: Vec<String>,
    /// Headers with the user's UID.
    pub(crate) uid_headers: Vec<String>,
    /// Headers with the user's groups.
    pub(crate) group_headers: Vec<String>,
    /// Prefixes of headers with more.
    pub(crate) extra_headers_prefix: Vec<String>,
}

/// What a client of the secure port may read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authorization {
    /// Kubeconfig of the API server that reviews access; `None`: nothing but the open paths when out of cluster.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Paths open to all; a `*` at the end stands for any rest.
    pub(crate) always_allow_paths: Vec<String>,
    /// Time that a yes is kept.
    pub(crate) authorized_ttl: Duration,
    /// Time that a no is kept.
    pub(crate) unauthorized_ttl: Duration,
}

fn path(value: Option<&String>) -> Option<PathBuf> {
    text(value).map(PathBuf::from)
}

/// The secure port, or `None` when it is switched off.
pub(super) fn serving(flags: &ServingFlags, reader: &mut Reader) -> Option<Serving> {
    let expected = "must be between 0 and 65535, inclusive. 0 for turning off secure port";
    let port = match flags.secure_port.as_ref() {
        None => DEFAULT_PORT,
        given => reader
            .parsed::<u16>("--secure-port", given, expected)
            .unwrap_or(DEFAULT_PORT),
    };
    let ip: Option<IpAddr> = reader.parsed("--bind-address", flags.bind_address.as_ref(), "should be an IP address");
    let certificate = certificate(flags, reader);
    let sni_certificates = flags
        .tls_sni_cert_key
        .iter()
        .filter_map(|value| sni_certificate(value, reader))
        .collect();
    let min_version = min_version(flags.tls_min_version.as_deref(), reader);
    let cipher_suites = cipher_suites(&flags.tls_cipher_suites, reader);
    let curves = curves(&flags.tls_curve_preferences, reader);
    // Always done, as by Go's listeners; the value is still checked.
    let _: Option<bool> = reader.bool("--permit-address-sharing", flags.permit_address_sharing.as_ref());
    let share_port = reader.bool("--permit-port-sharing", flags.permit_port_sharing.as_ref());
    let disabled = reader.bool("--disable-http2-serving", flags.disable_http2_serving.as_ref());
    let streams: Option<u32> = reader.parsed(
        "--http2-max-streams-per-connection",
        flags.http2_max_streams_per_connection.as_ref(),
        "should be a number of streams",
    );
    let http2 = match disabled {
        Some(true) => Http2::Disabled,
        _ => Http2::Enabled {
            max_streams: streams.unwrap_or(0),
        },
    };
    (port != 0).then_some(Serving {
        address: SocketAddr::new(ip.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)), port),
        certificate,
        sni_certificates,
        min_version,
        cipher_suites,
        curves,
        http2,
        share_port: share_port.unwrap_or(false),
    })
}

/// The certificate that the flags name, or the pair in `--cert-dir` when it is there.
fn certificate(flags: &ServingFlags, reader: &mut Reader) -> Option<Certificate> {
    let pair = |cert_file, key_file| Certificate {
        cert_file,
        key_file,
        names: Vec::new(),
    };
    match (
        path(flags.tls_cert_file.as_ref()),
        path(flags.tls_private_key_file.as_ref()),
    ) {
        (Some(cert), Some(key)) => Some(pair(cert, key)),
        (None, None) => {
            let folder = path(flags.cert_dir.as_ref())?;
            let found = pair(
                folder.join(format!("{PAIR_NAME}.crt")),
                folder.join(format!("{PAIR_NAME}.key")),
            );
            (found.cert_file.exists() && found.key_file.exists()).then_some(found)
        }
        (Some(_), None) => {
            reader
                .errors
                .push("--tls-cert-file: --tls-private-key-file has to be given too".to_owned());
            None
        }
        (None, Some(_)) => {
            reader
                .errors
                .push("--tls-private-key-file: --tls-cert-file has to be given too".to_owned());
            None
        }
    }
}

/// `cert,key` or `cert,key:name,name`.
fn sni_certificate(value: &str, reader: &mut Reader) -> Option<Certificate> {
    // A colon may stand in a path, so the names begin after the last one.
    let (files, names) = value.rsplit_once(':').unwrap_or((value, ""));
    match files.split(',').map(str::trim).collect::<Vec<_>>().as_slice() {
        [cert, key] if !cert.is_empty() && !key.is_empty() => Some(Certificate {
            cert_file: PathBuf::from(*cert),
            key_file: PathBuf::from(*key),
            names: list(&[names.to_owned()]),
        }),
        _ => {
            reader.refuse(
                "--tls-sni-cert-key",
                value,
                "expected comma separated certificate and key file paths",
            );
            None
        }
    }
}

fn min_version(value: Option<&str>, reader: &mut Reader) -> TlsVersion {
    match value.unwrap_or("") {
        "" | "VersionTLS12" => TlsVersion::Tls12,
        "VersionTLS13" => TlsVersion::Tls13,
        old @ ("VersionTLS10" | "VersionTLS11") => {
            reader.warn(format!(
                "--tls-min-version={old} is taken as VersionTLS12: older versions are not offered"
            ));
            TlsVersion::Tls12
        }
        other => {
            let detail = "unknown tls version; VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13";
            reader.refuse("--tls-min-version", other, detail);
            TlsVersion::Tls12
        }
    }
}

/// The offered ones of the wanted suites. It is an error when none is left.
fn cipher_suites(values: &[String], reader: &mut Reader) -> Vec<String> {
    let wanted = list(values);
    let mut suites = Vec::new();
    let mut left_out = Vec::new();
    let mut known = true;
    for suite in &wanted {
        if OFFERED.contains(&suite.as_str()) {
            suites.push(suite.clone());
        } else if NOT_OFFERED.contains(&suite.as_str()) {
            left_out.push(suite.as_str());
        } else if !TLS13.contains(&suite.as_str()) {
            reader.refuse(
                "--tls-cipher-suites",
                suite,
                "cipher suite is not supported or does not exist",
            );
            known = false;
        }
    }
    if known && suites.is_empty() && !left_out.is_empty() {
        let offered = OFFERED.join(", ");
        reader.errors.push(format!(
            "--tls-cipher-suites: none of the suites is offered; offered are {offered}"
        ));
    } else if !left_out.is_empty() {
        let left_out = left_out.join(", ");
        reader.warn(format!(
            "--tls-cipher-suites: left out, because they are not offered: {left_out}"
        ));
    }
    suites
}

/// The offered ones of the wanted groups of key exchange. It is an error when none is left.
fn curves(values: &[String], reader: &mut Reader) -> Vec<u16> {
    const FLAG: &str = "--tls-curve-preferences";
    let mut seen = Vec::new();
    let errors = reader.errors.len();
    for value in list(values) {
        match value.parse::<u16>() {
            Ok(curve) if seen.contains(&curve) => reader.refuse(FLAG, &value, "duplicate curve preference"),
            Ok(curve) if OFFERED_CURVES.contains(&curve) || NOT_OFFERED_CURVES.contains(&curve) => seen.push(curve),
            Ok(_) => reader.refuse(FLAG, &value, "no curve that is known; 23, 24 and 29 are offered"),
            Err(_) => reader.refuse(FLAG, &value, "should be the number of a curve, from 1 to 65535"),
        }
    }
    let (offered, left_out): (Vec<u16>, Vec<u16>) =
        seen.iter().copied().partition(|curve| OFFERED_CURVES.contains(curve));
    if left_out.is_empty() || reader.errors.len() > errors {
        return offered;
    }
    let left_out: Vec<String> = left_out.iter().map(u16::to_string).collect();
    let left_out = left_out.join(", ");
    if offered.is_empty() {
        reader.errors.push(format!(
            "{FLAG}: none of the curves is offered ({left_out}); offered are 23, 24 and 29"
        ));
    } else {
        reader.warn(format!("{FLAG}: left out, because they are not offered: {left_out}"));
    }
    offered
}

/// Who a client is.
pub(super) fn authentication(flags: &AuthenticationFlags, reader: &mut Reader) -> Authentication {
    let skip_lookup = reader.bool(
        "--authentication-skip-lookup",
        flags.authentication_skip_lookup.as_ref(),
    );
    let tolerate = flags.authentication_tolerate_lookup_failure.as_ref();
    let tolerate_lookup_failure = reader.bool("--authentication-tolerate-lookup-failure", tolerate);
    let ttl = flags.authentication_token_webhook_cache_ttl.as_ref();
    let request_header = path(flags.requestheader_client_ca_file.as_ref()).map(|client_ca_file| RequestHeader {
        client_ca_file,
        allowed_names: list(&flags.requestheader_allowed_names),
        username_headers: list_or(&flags.requestheader_username_headers, &["x-remote-user"]),
        uid_headers: list(&flags.requestheader_uid_headers),
        group_headers: list_or(&flags.requestheader_group_headers, &["x-remote-group"]),
        extra_headers_prefix: list_or(&flags.requestheader_extra_headers_prefix, &["x-remote-extra-"]),
    });
    Authentication {
        kubeconfig: path(flags.authentication_kubeconfig.as_ref()),
        skip_lookup: skip_lookup.unwrap_or(false),
        tolerate_lookup_failure: tolerate_lookup_failure.unwrap_or(true),
        token_cache_ttl: reader.duration("--authentication-token-webhook-cache-ttl", ttl, DEFAULT_TTL),
        client_ca_file: path(flags.client_ca_file.as_ref()),
        request_header,
    }
}

/// What a client may read.
pub(super) fn authorization(flags: &AuthorizationFlags, reader: &mut Reader) -> Authorization {
    let always_allow_paths = list_or(
        &flags.authorization_always_allow_paths,
        &["/healthz", "/readyz", "/livez"],
    );
    for path in always_allow_paths
        .iter()
        .filter(|path| path.trim_end_matches('*').contains('*'))
    {
        reader.refuse(
            "--authorization-always-allow-paths",
            path,
            "a * may stand at the end only",
        );
    }
    let yes = flags.authorization_webhook_cache_authorized_ttl.as_ref();
    let no = flags.authorization_webhook_cache_unauthorized_ttl.as_ref();
    Authorization {
        kubeconfig: path(flags.authorization_kubeconfig.as_ref()),
        always_allow_paths,
        authorized_ttl: reader.duration("--authorization-webhook-cache-authorized-ttl", yes, DEFAULT_TTL),
        unauthorized_ttl: reader.duration("--authorization-webhook-cache-unauthorized-ttl", no, DEFAULT_TTL),
    }
}
