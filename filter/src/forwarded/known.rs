//! The well-known headers, and which of them each load balancer writes.

use crate::config::wire::{Form, Preset};

/// The header that the module restores.
pub const FORWARDED_PROTO: &str = "x-forwarded-proto";
pub(crate) const FORWARDED_PORT: &str = "x-forwarded-port";

/// Headers that tell the scheme, with their forms.
const HEADERS: [(&str, Form); 13] = [
    (FORWARDED_PROTO, Form::Scheme),
    (FORWARDED_PORT, Form::Port),
    ("forwarded", Form::Forwarded),
    ("cf-visitor", Form::CfVisitor),
    ("cloudfront-forwarded-proto", Form::Scheme),
    ("x-forwarded-ssl", Form::Flag),
    ("front-end-https", Form::Flag),
    ("x-forwarded-scheme", Form::Scheme),
    ("x-forwarded-protocol", Form::Scheme),
    ("x-scheme", Form::Scheme),
    ("x-url-scheme", Form::Scheme),
    ("x-arr-ssl", Form::Present),
    ("fastly-ssl", Form::Flag),
];

/// How a well-known header tells the scheme.
pub(crate) fn form_of(header: &str) -> Option<Form> {
    HEADERS.iter().find(|(name, _)| *name == header).map(|&(_, form)| form)
}

pub(crate) fn tells_scheme(header: &str) -> bool {
    form_of(header).is_some()
}

/// The headers that a load balancer always writes itself. A header that it merely forwards is not
/// among them.
pub(crate) fn headers_of(preset: Preset) -> &'static [&'static str] {
    match preset {
        Preset::AwsAlb | Preset::AwsClb | Preset::Heroku => &[FORWARDED_PROTO, FORWARDED_PORT],
        Preset::Nlb => &[],
        Preset::Cloudfront => &["cloudfront-forwarded-proto"],
        Preset::Cloudflare => &["cf-visitor", FORWARDED_PROTO],
        Preset::Gcp
        | Preset::AzureFrontDoor
        | Preset::AzureAppGateway
        | Preset::Fastly
        | Preset::Akamai
        | Preset::Nginx
        | Preset::Haproxy => &[FORWARDED_PROTO],
    }
}
