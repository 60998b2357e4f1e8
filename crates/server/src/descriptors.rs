//! Room for as many open files as the limit of connections needs.

use crate::Limits;
use crate::connections::ADMIN_CONNECTIONS;

/// Files beside connections: of databases that load, of keys, of a publication, of the log.
const OTHERS: usize = 256;

/// Raises the process's soft limit of open files to what the limits need. Where the system does not allow as many,
/// lowers the limit of connections to what it does and says so: a server out of descriptors could not even answer
/// its operator.
pub(crate) fn make_room(limits: &mut Limits) {
    let reserve = ADMIN_CONNECTIONS + OTHERS;
    let needed = limits.connections.saturating_add(reserve);
    fit(limits, rlimit::increase_nofile_limit(needed as u64));
}

/// Lowers the limit of connections to what the process's soft limit of open files leaves room for, which belongs to a process
/// that does other things too.
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

/// The connections that `allowed` files leave room for, if they are fewer than wanted.
fn affordable(wanted: usize, reserve: usize, allowed: usize) -> Option<usize> {
    // Where there is hardly anything, clients and the rest get half each.
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
