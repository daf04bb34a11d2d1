//! Errors about credentials in words that repeat nothing of the kubeconfig, of the files that it
//! names and of what a credential program writes to standard output. kube's own words quote all of
//! them. Each variant has words of its own, so an unknown one shows nothing.

use std::process::Output;

use kube::client::{AuthError, RustlsTlsError};
use kube::config::{InClusterError, KubeconfigError, LoadDataError};

use laststream_base::parse_error::ParseError;
use laststream_base::visible::brief;

pub(crate) fn of_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(error) => {
            format!("{}: correct the file", ParseError::from(&**error))
        }
        KubeconfigError::ReadConfig(error, _) => format!("cannot be read: {error}"),
        KubeconfigError::KindMismatch => "the files have several values of `kind`".to_owned(),
        KubeconfigError::ApiVersionMismatch => {
            "the files have several values of `apiVersion`".to_owned()
        }
        KubeconfigError::MissingClusterUrl => "the cluster has no `server`".to_owned(),
        KubeconfigError::ParseClusterUrl(error) => {
            format!("the cluster's `server` is not an address: {error}")
        }
        KubeconfigError::LoadCertificateAuthority(error) => of_data("certificate-authority", error),
        KubeconfigError::LoadClientCertificate(error) => of_data("client-certificate", error),
        KubeconfigError::LoadClientKey(error) => of_data("client-key", error),
        KubeconfigError::ParseCertificates(_) => {
            "`certificate-authority` or its data holds no certificates in PEM".to_owned()
        }
        _ => "it is not a file that kubectl reads".to_owned(),
    }
}

/// The error of a field that names a file, and of its twin with the data. The name is not shown,
/// because its place may hold data.
fn of_data(field: &str, error: &LoadDataError) -> String {
    match error {
        LoadDataError::DecodeBase64(_) => format!("`{field}-data` is not base64"),
        LoadDataError::ReadFile(error, _) => {
            format!("the file that `{field}` names cannot be read: {error}")
        }
        LoadDataError::NoBase64DataOrFile => {
            format!("neither `{field}` nor `{field}-data` is there")
        }
    }
}

pub(crate) fn of_tls(error: &RustlsTlsError) -> String {
    match error {
        RustlsTlsError::MissingPrivateKey => {
            "the client key is not there, or is neither PKCS8 nor PKCS1 in PEM"
        }
        RustlsTlsError::MissingCertificate => "the client certificate holds none in PEM",
        RustlsTlsError::AddRootCertificate(_) => "a certificate authority is damaged",
        RustlsTlsError::NoValidNativeRootCA(_) => {
            "it has no certificate authority, and this machine has none either"
        }
        RustlsTlsError::InvalidServerName(_) => "`tls-server-name` is not the name of a host",
        _ => "the client certificate or its key is damaged",
    }
    .to_owned()
}

pub(crate) fn of_pod(error: &InClusterError) -> String {
    match error {
        InClusterError::ReadDefaultNamespace(error) => {
            format!("its namespace cannot be read: {error}")
        }
        InClusterError::ReadCertificateBundle(error) => {
            format!("its certificate authority cannot be read: {error}")
        }
        InClusterError::ParseCertificates(_) => "its certificate authority is not PEM".to_owned(),
        _ => "the variables with the address of the API server are wrong".to_owned(),
    }
}

pub(crate) fn of_auth(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecRun { cmd, out } => of_program(cmd, out),
        AuthError::AuthExecStart(error) => {
            format!("the program that `exec` names cannot be started: {error}")
        }
        AuthError::AuthExecParse(error) => {
            format!("the answer of the program that `exec` names: {}", ParseError::from(&**error))
        }
        AuthError::ParseTokenKey(error) => {
            format!("the answer of the program that `cmd-path` names: {}", ParseError::from(error))
        }
        AuthError::ExecPluginFailed => {
            "the answer of the program that `exec` names has no `status`".to_owned()
        }
        AuthError::MissingCommand => "`exec` has no `command`".to_owned(),
        AuthError::MalformedTokenExpirationDate(_) => {
            "the time at which the token expires is not in RFC 3339".to_owned()
        }
        AuthError::UnrefreshableTokenResponse => {
            "the program that `exec` names no longer gives a token".to_owned()
        }
        AuthError::ReadTokenFile(error, _) => {
            format!("the file that `tokenFile` names cannot be read: {error}")
        }
        AuthError::InvalidBasicAuth(_) => {
            "the user name or the password has characters that cannot be sent".to_owned()
        }
        AuthError::InvalidBearerToken(_) => {
            "the token has characters that cannot be sent, such as a line break".to_owned()
        }
        AuthError::AuthExec(_) => {
            "`auth-provider` is not supported, or gives no token: use `exec`, for example with \
             kubelogin"
                .to_owned()
        }
        _ => "they are not usable".to_owned(),
    }
}

/// A credential program that failed, with its standard error, which is for people. Its arguments
/// and its variables are left out.
fn of_program(command: &str, output: &Output) -> String {
    let program = command.split_once(" \"--\" \"").and_then(|(_, rest)| rest.split_once('"'));
    let name = program
        .map_or("the credential program".to_owned(), |(name, _)| format!("`{}`", brief(name)));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stderr =
        if stderr.trim().is_empty() { String::new() } else { format!(": {}", brief(&stderr)) };
    format!("{name} ended with {}{stderr}", output.status)
}
