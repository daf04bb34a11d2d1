//! The scripts of the Lua filters that variants are compared with.

/// As much of a policy with one source, a port, as Lua can do: it checks the direct peer, reads the
/// load balancer's header, and writes only a changed value.
pub(crate) const LUA_BY_PORT: &str = r#"
function envoy_on_request(handle)
  local peer = handle:streamInfo():downstreamDirectRemoteAddress()
  if peer:sub(1, 4) == "127." then
    local headers = handle:headers()
    local scheme = headers:get("x-forwarded-port") == "443" and "https" or "http"
    if headers:get("x-forwarded-proto") ~= scheme then
      headers:replace("x-forwarded-proto", scheme)
    end
  end
end
"#;

/// The same for the preset `aws_alb`: both headers must agree, and the one that Envoy overwrites
/// was saved before.
pub(crate) const LUA_BY_ALB: &str = r#"
function envoy_on_request(handle)
  local peer = handle:streamInfo():downstreamDirectRemoteAddress()
  if peer:sub(1, 4) == "127." then
    local headers = handle:headers()
    local scheme = headers:get("x-forwarded-port") == "443" and "https" or "http"
    if headers:get("x-laststream-forwarded-proto") == scheme
        and headers:get("x-forwarded-proto") ~= scheme then
      headers:replace("x-forwarded-proto", scheme)
    end
  end
end
"#;
