//! What clients download of a version, once for many of them.

use spirea_client::{Description, Hint, Session, WeakPrf};
use spirea_wire::Code;

use crate::torture::service::{Http, Service};

/// How often a version may be replaced while it is downloaded.
const ATTEMPTS: usize = 10;

pub struct Edition {
    pub description: Description,
    pub hints: Vec<Hint>,
}

impl Edition {
    /// The version that is served now.
    pub fn download(http: &Http, service: &Service, name: &str) -> Self {
        let whole = |_| {
            let reply = http.get(&service.data(name, "config")).unwrap();
            assert_eq!(reply.status, 200, "{:?}", reply.refusal());
            let description = Description::parse(name, reply.body).unwrap();
            let hint = |part: &spirea_client::PartDescription| {
                if part.hint_bytes() == 0 {
                    return Some(part.hint(Vec::new()).unwrap());
                }
                let hash = blake3::Hash::from_bytes(*part.hint_blake3()).to_hex();
                let reply = http.get(&service.data(name, &format!("hint?blake3={hash}"))).unwrap();
                if reply.status != 200 {
                    assert_eq!(reply.refusal().code, Code::UnknownHint);
                    return None;
                }
                Some(part.hint(reply.body.to_vec()).unwrap())
            };
            let hints = description.parts().map(hint).collect::<Option<_>>()?;
            Some(Self { description, hints })
        };
        (0..ATTEMPTS).find_map(whole).expect("a version stays long enough to be downloaded")
    }

    /// A client of it.
    pub fn session(&self) -> Session {
        Session::new(self.description.clone(), &self.hints).unwrap()
    }

    /// A client that goes on from another version.
    pub fn follow(&self, former: &Session) -> Session {
        former.follow(self.description.clone(), &self.hints, WeakPrf::Refuse).unwrap()
    }
}
