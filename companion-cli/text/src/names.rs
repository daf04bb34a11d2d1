//! Checks names of Kubernetes before they become a part of a path or a selector.

const LABEL: &str = "is not a name in Kubernetes: lowercase letters, digits and `-` between them, \
    63 at most";
const SUBDOMAIN: &str = "is not a name in Kubernetes: lowercase letters, digits, and `-` or `.` \
    between them, 253 at most";

/// The name of a namespace, if it is valid.
pub fn label(text: &str) -> Result<String, &'static str> {
    let is_valid = text.len() <= 63 && is_label(text);
    is_valid.then(|| text.to_owned()).ok_or(LABEL)
}

/// The name of a workload or a node, if it is valid.
pub fn subdomain(text: &str) -> Result<String, &'static str> {
    let is_valid = text.len() <= 253 && text.split('.').all(is_label);
    is_valid.then(|| text.to_owned()).ok_or(SUBDOMAIN)
}

fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_changes_a_path_or_a_selector_is_refused() {
        for name in ["", "a/../..", "a?x", "A", "-a", "a-", "a,spec.x=b", "a b", "a..b"] {
            assert!(label(name).is_err() && subdomain(name).is_err(), "{name}");
        }
        assert!(label("shop-2").is_ok() && label("a.b").is_err());
        assert!(subdomain("ip-10-0-0-1.ec2.internal").is_ok());
        assert!(label(&"a".repeat(64)).is_err() && subdomain(&"a".repeat(254)).is_err());
    }
}
