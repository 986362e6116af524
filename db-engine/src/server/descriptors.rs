//! How many descriptors the process has, and what they are for.

/// Descriptors of the process besides those of its shards: the standard streams, the listening
/// sockets of HTTP and of the operator with their clients, signals, the lock, the schema's file,
/// `/proc`.
const RESERVED: u64 = 30;

/// Descriptors of a shard: its listening socket, poll and bell, segments of the log, the directory
/// while it is synced.
const RESERVED_OF_SHARD: u64 = 10;

/// Fewest descriptors for sstables: what one read and one flush use side by side.
const FILES_MIN: u64 = 8;

/// Most descriptors for sstables. More would only cost the kernel memory.
const FILES_MAX: u64 = 1 << 16;

/// Fewest connections of a shard.
const CONNECTIONS_MIN: u64 = 4;

/// What the descriptors of the process are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescriptorShares {
    /// Connections of each shard.
    pub connections_of_shard: u32,
    /// Open sstables and other files, of all shards together.
    pub files: usize,
}

/// Shares out `limit` descriptors: what is left beside the reserved ones goes to connections by
/// three quarters, up to `connections_of_shard` each, and to files.
///
/// # Errors
/// A sentence that says how many are needed, if there are too few.
pub fn share_out(
    limit: u64,
    shards: u16,
    connections_of_shard: u32,
) -> Result<DescriptorShares, String> {
    let shards = u64::from(shards);
    let reserved = RESERVED + RESERVED_OF_SHARD * shards;
    let least = reserved + FILES_MIN + CONNECTIONS_MIN * shards;
    if limit < least {
        return Err(format!(
            "the process may have {limit} open files, and needs {least}: raise the limit \
             (ulimit -n, LimitNOFILE)"
        ));
    }
    let left = limit - reserved;
    let most = left - (left / 4).clamp(FILES_MIN, left - CONNECTIONS_MIN * shards);
    let connections = u64::from(connections_of_shard).min(most / shards);
    let files = (left - connections * shards).min(FILES_MAX);
    Ok(DescriptorShares {
        connections_of_shard: u32::try_from(connections).unwrap_or(u32::MAX),
        files: usize::try_from(files).unwrap_or(usize::MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_given_away_than_there_is_and_nobody_is_left_without() {
        for shards in [1, 2, 7, 256] {
            for limit in (0..6000).chain([20_000, 1 << 20, u64::from(u32::MAX)]) {
                let Ok(given) = share_out(limit, shards, 4096) else {
                    assert!(limit < 42 + 14 * u64::from(shards), "{limit} for {shards}");
                    continue;
                };
                let connections = u64::from(given.connections_of_shard);
                let shards = u64::from(shards);
                let all = 30 + 10 * shards + connections * shards + given.files as u64;
                assert!(all <= limit, "{given:?} of {limit}");
                assert!((4..=4096).contains(&connections), "{given:?} of {limit}");
                assert!((8..=1 << 16).contains(&given.files), "{given:?} of {limit}");
            }
        }
    }

    #[test]
    fn what_was_asked_for_is_had_if_there_is_enough() {
        let shares = DescriptorShares { connections_of_shard: 4096, files: 20_000 - 50 - 8192 };
        assert_eq!(share_out(20_000, 2, 4096), Ok(shares));
        let few = DescriptorShares { connections_of_shard: 12, files: 8 };
        assert_eq!(share_out(60, 1, 4096), Ok(few));
        assert!(share_out(40, 1, 4096).unwrap_err().contains("40 open files, and needs 52"));
    }
}
