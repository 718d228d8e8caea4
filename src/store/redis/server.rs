//! What a server tells of itself.

/// The part of `INFO` that decides whether a server can keep claims.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerInfo {
    /// `redis_version` or `valkey_version`.
    pub version: String,
    /// `master`, or `slave` of a replica.
    pub role: String,
    /// Replicas that are connected.
    pub replicas: u32,
    /// Bytes of memory that it may use; 0 is no limit.
    pub maxmemory: u64,
    /// What it does at that limit.
    pub maxmemory_policy: String,
    /// Whether each write is appended to a file.
    pub aof: bool,
    /// Whether it is a node of a cluster.
    pub cluster: bool,
}

impl ServerInfo {
    /// Reads an `INFO` reply; what it does not hold stays empty.
    pub(super) fn read(text: &str) -> Self {
        let mut info = Self::default();
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match name {
                "valkey_version" => value.clone_into(&mut info.version),
                "redis_version" if info.version.is_empty() => value.clone_into(&mut info.version),
                "role" => value.clone_into(&mut info.role),
                "connected_slaves" => info.replicas = value.parse().unwrap_or(0),
                "maxmemory" => info.maxmemory = value.parse().unwrap_or(0),
                "maxmemory_policy" => value.clone_into(&mut info.maxmemory_policy),
                "aof_enabled" => info.aof = value == "1",
                "cluster_enabled" => info.cluster = value == "1",
                _ => {}
            }
        }
        info
    }

    /// Whether the server may drop a claim to make room for something else.
    pub fn evicts(&self) -> bool {
        self.maxmemory > 0 && self.maxmemory_policy != "noeviction"
    }

    /// Whether it cannot take writes of its own.
    pub fn is_replica(&self) -> bool {
        self.role == "slave"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_matter_are_read() {
        let text = "# Server\r\nredis_version:7.2.4\r\nvalkey_version:8.0.1\r\n\r\n# Memory\r\n\
                    maxmemory:1048576\r\nmaxmemory_policy:allkeys-lru\r\n# Persistence\r\n\
                    aof_enabled:1\r\nrole:slave\r\nconnected_slaves:2\r\ncluster_enabled:0\r\n";
        let info = ServerInfo::read(text);
        assert_eq!((info.version.as_str(), info.replicas), ("8.0.1", 2));
        assert!(info.evicts() && info.is_replica() && info.aof && !info.cluster);
        let unlimited = ServerInfo { maxmemory: 0, ..info.clone() };
        assert!(!unlimited.evicts(), "without a limit nothing is evicted");
        let kept = ServerInfo { maxmemory_policy: "noeviction".into(), ..info };
        assert!(!kept.evicts());
    }
}
