//! Raises the limit of open files to fit the limit of connections.

use crate::Limits;
use crate::connections::ADMIN_CONNECTIONS;

/// Number of open files other than connections: for loading databases, keys, a publication, and the
/// log.
const OTHERS: usize = 256;

/// Raises the process's soft limit of open files to the number that `limits` needs. If the system
/// does not allow that number, lowers the limit of connections accordingly and logs it: a server
/// out of descriptors could not even answer its operator.
pub(crate) fn make_room(limits: &mut Limits) {
    let reserve = ADMIN_CONNECTIONS + OTHERS;
    let needed = limits.connections.saturating_add(reserve);
    fit(limits, rlimit::increase_nofile_limit(needed as u64));
}

/// Lowers the limit of connections to fit the process's soft limit of open files, which is left
/// unchanged because the process also does other things.
pub(crate) fn keep_within(limits: &mut Limits) {
    fit(limits, rlimit::Resource::NOFILE.get_soft());
}

fn fit(limits: &mut Limits, allowed: std::io::Result<u64>) {
    let reserve = ADMIN_CONNECTIONS + OTHERS;
    let needed = limits.connections.saturating_add(reserve);
    let allowed = match allowed {
        Ok(allowed) => usize::try_from(allowed).unwrap_or(usize::MAX),
        Err(error) => {
            tracing::warn!(%error, "the system does not say how many files may be open");
            return;
        }
    };
    if let Some(connections) = affordable(limits.connections, reserve, allowed) {
        tracing::warn!(
            "at most {allowed} files may be open, and limits.connections = {} needs {needed}: {connections} connections are \
             accepted at once; raise the hard limit (ulimit -Hn, LimitNOFILE) for more",
            limits.connections
        );
        limits.connections = connections;
    }
}

/// Returns the number of connections that `allowed` files leave room for, if it is below `wanted`.
fn affordable(wanted: usize, reserve: usize, allowed: usize) -> Option<usize> {
    // If hardly any files are left, clients get half of them, and all other uses the other half.
    let room = allowed.saturating_sub(reserve).max(allowed / 2).max(1);
    (room < wanted).then_some(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_as_many_as_files_allow() {
        assert_eq!(affordable(4096, 512, 65536), None);
        assert_eq!(affordable(4096, 512, 4608), None);
        assert_eq!(affordable(4096, 512, 4096), Some(3584));
        assert_eq!(affordable(4096, 512, 256), Some(128));
        assert_eq!(affordable(4096, 512, 0), Some(1));
    }
}
