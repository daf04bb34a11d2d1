//! What the cases stand on: Envoy processes, an upstream that misbehaves on demand, clients for every protocol.
