//! Downloads of a version, shared by many clients.

use spirea_client::{Description, Hint, Session, WeakPrf};
use spirea_wire::Code;

use crate::torture::service::{Http, Service};

/// Maximum number of times that a version may be replaced during its download.
const ATTEMPTS: usize = 10;

pub struct Edition {
    pub description: Description,
    pub hints: Vec<Hint>,
}

impl Edition {
    /// Downloads the version that is served now.
    pub fn download(http: &Http, service: &Service, name: &str) -> Self {
        let whole = |_| {
            let reply = http.get(&service.data(name, "config")).unwrap();
            assert_eq!(reply.status, 200, "{:?}", reply.refusal());
            let description = Description::parse(name, reply.body).unwrap();
            let hint = |part: &spirea_client::PartDescription| {
                if part.hint_bytes() == 0 {
                    return Some(part.hint(Vec::new()).unwrap());
                }
                let hash = part.hint_blake3().to_string();
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

    /// Creates a client of this version.
    pub fn session(&self) -> Session {
        Session::new(self.description.clone(), &self.hints).unwrap()
    }

    /// Creates a client that continues from another version.
    pub fn follow(&self, former: &Session) -> Session {
        former.follow(self.description.clone(), &self.hints, WeakPrf::Refuse).unwrap()
    }
}
