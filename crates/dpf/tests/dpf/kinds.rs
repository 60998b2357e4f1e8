//! Names and properties of functions.

use spirea_dpf::prf::PrfVisitor;
use spirea_dpf::*;

struct Kind;

impl PrfVisitor for Kind {
    type Output = PrfKind;

    fn visit<P: Prf>(self, _: P) -> PrfKind {
        P::KIND
    }
}

#[test]
fn names_are_the_same_everywhere() {
    let names =
        ["aes-128", "chacha20", "chacha12", "salsa20", "salsa12", "siphash", "highwayhash", "sha-256"];
    assert_eq!(PrfKind::ALL.map(PrfKind::name), names);
    for kind in PrfKind::ALL {
        assert_eq!(kind.to_string(), kind.name());
        assert_eq!(kind.name().parse(), Ok(kind));
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        assert_eq!(serde_json::from_value::<PrfKind>(kind.name().into()).unwrap(), kind);
        assert_eq!(kind.visit(Kind), kind);
    }
}

#[test]
fn an_unknown_name_is_told_the_others() {
    let error = "md5".parse::<PrfKind>().unwrap_err();
    assert!(matches!(&error, DpfError::Unknown { what: "pseudorandom function", name, .. } if name == "md5"));
    assert!(PrfKind::ALL.iter().all(|kind| error.to_string().contains(kind.name())));
}

#[test]
fn the_weak_ones_need_consent_and_the_default_does_not() {
    let weak: Vec<PrfKind> = PrfKind::ALL.into_iter().filter(|kind| kind.needs_consent()).collect();
    assert_eq!(weak, [PrfKind::SipHash24, PrfKind::HighwayHash]);
    assert_eq!(PrfKind::default(), PrfKind::Aes128);
    assert!(PrfKind::ALL.iter().all(|kind| kind.trust().ends_with('.')));
}
