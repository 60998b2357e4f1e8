//! Report on Apple's clients: what the server learns, and what the protocol does not promise.

use spirea_lattice::RingSet;
use spirea_store::AppleTables;

use super::observers::Observer;

/// Returns what the server of these tables learns of an Apple client.
pub(super) fn server(apple: &AppleTables) -> Observer {
    let names: Vec<&str> = apple.use_cases.iter().map(|use_case| use_case.name.as_str()).collect();
    let keywords = apple.use_cases.iter().map(|use_case| use_case.keywords).max().unwrap_or(0);
    let shards = apple.use_cases.iter().map(|use_case| use_case.shards.len()).max().unwrap_or(1);
    // The estimate for `Fast` is a lower bound here: degree, secret and noise are equal, and
    // Apple's modulus has 83 bits instead of 87, so attacks cost more.
    let security = RingSet::Fast.security();
    let mut learns = vec![
        format!("which of the use cases {} a request is for, and which configuration the client has", names.join(", ")),
        "that requests come from one client: every request has the User-Identifier that the client chose, and names an evaluation key that stays for as long as the client keeps it".into(),
        "if it changes responses: whether the client accepts them, as far as it acts on them. Responses are not checked: no checksum, no inclusion proof and no signature protects the client from a server that lies".into(),
    ];
    if shards > 1 {
        learns.push(format!(
            "which of {shards} shards has the number: up to {:.0} bits of it",
            (shards as f64).log2()
        ));
    }
    Observer {
        who: "the server, of an Apple client",
        learns,
        does_not_learn: vec![
            format!(
                "which of up to {keywords} numbers is looked up{}: attacks on {} cost at least 2^{:.1} by MATZOV, 2^{:.1} by BDGL16 and 2^{:.1} by core-SVP, on the assumption of circular security; but if the client reacts to responses that the server changed, nothing is promised",
                if shards > 1 { " within its shard" } else { "" },
                apple.set,
                security.matzov,
                security.bdgl16,
                security.core_svp
            ),
            "who the client is: a User-Identifier is chosen by the client and proves nothing; without a relay (apple.gateway) the server sees the address. A private token shows that its owner may ask, and not who that is; requests are unlinkable only as far as the User-Identifier and the evaluation key allow".into(),
        ],
    }
}
