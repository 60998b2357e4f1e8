//! The protocols by name: the one place that lists them.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use spirea_backend::{BackendError, PanelLayout, ProtocolBackend, Residence, ShareBackend};
use spirea_dpf::{Party, PrfKind};
use spirea_lattice::PublicMatrix;
use spirea_lattice::rlwe::KeyShape;
use spirea_math::random::{SecretRng, Seed};

pub use crate::choice::Choice;
use crate::grid::{Grid, Spread};
use crate::hint_rows::HintRows;
use crate::index::{AnyIndexClient, Pair};
use crate::parameters::{Failure, Parameters, Sets, Stored};
use crate::patch::LastingHint;
use crate::planner::Work;
use crate::steps::{Folded, LweHint, RingKeys};
use crate::{
    ProtocolError, Responder, Sizes, double, double_pack, dpf, exppack_double, exppack_simple, hybrid, onion,
    simple,
};

/// Names of the protocols.
pub const NAMES: [&str; 9] = [
    "simple",
    "double",
    "exppack-simple",
    "exppack-double",
    "double-pack",
    "hybrid",
    "onion",
    "dpf-xor",
    "dpf-sum",
];

/// A protocol with its parameters, as it stands in manifests and travels, opaque, in the wire's envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProtocolParams {
    /// [`simple`].
    Simple(simple::Params),
    /// [`double`].
    Double(double::Params),
    /// [`exppack_simple`].
    ExppackSimple(exppack_simple::Params),
    /// [`exppack_double`].
    ExppackDouble(exppack_double::Params),
    /// [`double_pack`].
    DoublePack(double_pack::Params),
    /// [`hybrid`].
    Hybrid(hybrid::Params),
    /// [`onion`].
    Onion(onion::Params),
    /// [`dpf`] with bits.
    DpfXor(dpf::XorParams),
    /// [`dpf`] with words.
    DpfSum(dpf::SumParams),
}

/// The files of a database that its server opens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The database.
    pub matrix: PathBuf,
    /// What was computed of it for the server.
    pub server: PathBuf,
}

/// How a server opens a database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// How the database is held.
    pub residence: Residence,
    /// Which of two servers this is; a protocol with one server ignores it.
    pub party: Option<Party>,
}

impl Opening {
    /// Which of two servers this is, for a protocol that has two.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if it does not say.
    pub fn one_of_two(&self) -> Result<Party, ProtocolError> {
        self.party.ok_or_else(|| {
            ProtocolError::BadRequest(
                "this database answers as one of two servers: say which with --party 0 or --party 1".into(),
            )
        })
    }
}

/// Where what is computed of a database goes.
pub struct Outputs<'a> {
    /// For clients.
    pub hint: &'a mut dyn Write,
    /// For the server.
    pub server: &'a mut dyn Write,
}

impl ProtocolParams {
    /// The cheapest shape of records under a protocol.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] for a name that there is not, or records that fit no shape.
    pub fn choose(
        choice: &Choice,
        seed: Seed,
        records: u64,
        record_bytes: usize,
    ) -> Result<Self, ProtocolError> {
        choice.validate()?;
        let set = choice.lwe_set()?;
        let packing = || choice.packing_set();
        Ok(match choice.protocol.as_str() {
            "simple" => Self::Simple(simple::Params::choose(set, seed, records, record_bytes)?),
            "double" => Self::Double(double::Params::choose(set, seed, records, record_bytes)?),
            "exppack-simple" => Self::ExppackSimple(exppack_simple::Params::choose(
                set,
                packing()?,
                seed,
                records,
                record_bytes,
            )?),
            "exppack-double" => Self::ExppackDouble(exppack_double::Params::choose(
                set,
                packing()?,
                seed,
                records,
                record_bytes,
            )?),
            "double-pack" => {
                Self::DoublePack(double_pack::Params::choose(set, packing()?, seed, records, record_bytes)?)
            }
            "hybrid" => Self::Hybrid(hybrid::Params::choose(set, packing()?, seed, records, record_bytes)?),
            "onion" => Self::Onion(onion::Params::choose(choice.onion_set()?, seed, records, record_bytes)?),
            "dpf-xor" => {
                Self::DpfXor(dpf::Params::choose(choice.prf, dpf::Bits::Bit, records, record_bytes)?)
            }
            _ => Self::DpfSum(dpf::Params::choose(choice.prf, choice.words, records, record_bytes)?),
        })
    }

    /// Parameters of other records under the same protocol and parameter sets, with a seed of their own.
    ///
    /// # Errors
    /// See [`ProtocolParams::choose`].
    pub fn reshaped(&self, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        Self::choose(&self.choice(), seed, records, record_bytes)
    }

    /// Parameters of a delta's records beside a base of these: under the same parameter sets and the simplest protocol
    /// of its kind. What a second fold, a second packing or a tournament saves of a large table, it costs a small one:
    /// hints, keys and time that do not shrink with the table.
    ///
    /// # Errors
    /// See [`ProtocolParams::choose`].
    pub fn of_delta(&self, seed: Seed, records: u64, record_bytes: usize) -> Result<Self, ProtocolError> {
        let choice = self.choice();
        let protocol = match self {
            Self::Double(_) => "simple",
            Self::ExppackDouble(_) | Self::DoublePack(_) | Self::Hybrid(_) => "exppack-simple",
            _ => self.name(),
        };
        Self::choose(&Choice { protocol: protocol.into(), ..choice }, seed, records, record_bytes)
    }

    /// The choice that these are the parameters of.
    pub fn choice(&self) -> Choice {
        let chosen = Choice { protocol: self.name().into(), ..Choice::default() };
        match self {
            Self::Simple(params) => Choice { set: Some(params.set.clone()), ..chosen },
            Self::Double(double::Params(params))
            | Self::ExppackSimple(exppack_simple::Params(params))
            | Self::ExppackDouble(exppack_double::Params(params))
            | Self::DoublePack(double_pack::Params(params))
            | Self::Hybrid(hybrid::Params(params)) => {
                Choice { set: Some(params.set.clone()), ring: params.ring.clone(), ..chosen }
            }
            Self::Onion(params) => Choice { ring: Some(params.ring.clone()), ..chosen },
            Self::DpfXor(params) => Choice { prf: params.prf, ..chosen },
            Self::DpfSum(params) => Choice { prf: params.prf, words: params.shares, ..chosen },
        }
    }

    /// The public seed: of the public matrices, or of the pad of polynomials; `None` for a protocol with neither.
    pub fn seed(&self) -> Option<Seed> {
        match self {
            Self::Simple(params) => Some(params.seed),
            Self::Double(double::Params(params))
            | Self::ExppackSimple(exppack_simple::Params(params))
            | Self::ExppackDouble(exppack_double::Params(params))
            | Self::DoublePack(double_pack::Params(params))
            | Self::Hybrid(hybrid::Params(params)) => Some(params.seed),
            Self::Onion(params) => Some(params.pad),
            Self::DpfXor(_) | Self::DpfSum(_) => None,
        }
    }

    /// The same parameters under another seed; protocols with neither a public matrix nor a pad take no notice of it.
    #[must_use]
    pub fn reseeded(&self, seed: Seed) -> Self {
        let mut reseeded = self.clone();
        match &mut reseeded {
            Self::Simple(params) => params.seed = seed,
            Self::Double(double::Params(params))
            | Self::ExppackSimple(exppack_simple::Params(params))
            | Self::ExppackDouble(exppack_double::Params(params))
            | Self::DoublePack(double_pack::Params(params))
            | Self::Hybrid(hybrid::Params(params)) => params.seed = seed,
            Self::Onion(params) => params.pad = seed,
            Self::DpfXor(_) | Self::DpfSum(_) => {}
        }
        reseeded
    }

    /// The hint that clients hold for longer than a version, under a protocol that has one. Its public matrix stays
    /// when records change, so that they fetch only what differs. Little is won by aiming content at it: the bound of
    /// `simple` holds for every database and every public matrix, and the roundings of `double` are at most three times
    /// the variance that its estimate takes, which leaves 2^-42 for a record, and the checksum tells.
    pub fn lasting_hint(&self) -> Option<LastingHint<'_>> {
        match self {
            Self::Simple(params) => Some(LastingHint::OfFold(params)),
            Self::Double(params) => Some(LastingHint::OfFixedRows(params)),
            Self::ExppackSimple(_)
            | Self::ExppackDouble(_)
            | Self::DoublePack(_)
            | Self::Hybrid(_)
            | Self::Onion(_)
            | Self::DpfXor(_)
            | Self::DpfSum(_) => None,
        }
    }

    /// Reads parameters and checks them, before anything else is done with them.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the cause.
    pub fn from_json(json: &[u8]) -> Result<Self, ProtocolError> {
        let params: Self = serde_json::from_slice(json)
            .map_err(|error| ProtocolError::malformed("parameters", error.to_string()))?;
        params.validate()?;
        Ok(params)
    }

    /// The parameters as JSON: the same bytes for the same parameters.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("parameters are plain data")
    }

    /// The parameters, whatever the protocol.
    fn parameters(&self) -> &dyn Parameters {
        match self {
            Self::Simple(params) => params,
            Self::Double(params) => params,
            Self::ExppackSimple(params) => params,
            Self::ExppackDouble(params) => params,
            Self::DoublePack(params) => params,
            Self::Hybrid(params) => params,
            Self::Onion(params) => params,
            Self::DpfXor(params) => params,
            Self::DpfSum(params) => params,
        }
    }

    /// The protocol's name.
    pub fn name(&self) -> &'static str {
        self.parameters().name()
    }

    /// The pseudorandom function of a protocol with two servers.
    pub fn prf(&self) -> Option<PrfKind> {
        match self {
            Self::DpfXor(params) => Some(params.prf),
            Self::DpfSum(params) => Some(params.prf),
            _ => None,
        }
    }

    /// Names of the parameter sets.
    pub fn set(&self) -> String {
        self.parameters().set()
    }

    /// Servers of the protocol: 1, or 2 that must not work together.
    pub fn parties(&self) -> usize {
        self.parameters().parties()
    }

    /// Which of the protocol's two servers opens a database so; `None` if the protocol has one.
    ///
    /// # Errors
    /// [`ProtocolError::BadRequest`] if the protocol has two and `opening` does not say which.
    pub fn party(&self, opening: Opening) -> Result<Option<Party>, ProtocolError> {
        (self.parties() > 1).then(|| opening.one_of_two()).transpose()
    }

    /// How each of the protocol's servers opens a database, in order.
    pub fn openings(&self, residence: Residence) -> Vec<Opening> {
        match self.parties() {
            1 => vec![Opening { residence, party: None }],
            _ => Party::BOTH.map(|party| Opening { residence, party: Some(party) }).into(),
        }
    }

    /// How the database lies in its file.
    pub fn stored(&self) -> Stored {
        self.parameters().stored()
    }

    /// Where the records lie.
    pub fn grid(&self) -> Grid {
        self.parameters().grid()
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// [`ProtocolError::Malformed`] with the cause.
    pub fn validate(&self) -> Result<(), ProtocolError> {
        self.parameters().validate()
    }

    /// The shape of the evaluation keys that the server needs of its clients, if any: keys of one shape serve any
    /// database that needs it.
    pub fn key_shape(&self) -> Option<KeyShape> {
        self.parameters().key_shape()
    }

    /// Bytes of queries, answers, the hint and evaluation keys.
    pub fn sizes(&self) -> Sizes {
        self.parameters().sizes()
    }

    /// Number of records.
    pub fn records(&self) -> u64 {
        self.grid().records
    }

    /// Bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.grid().record_bytes
    }

    /// Bytes of the stored database.
    pub fn matrix_bytes(&self) -> u64 {
        self.stored().bytes()
    }

    /// Bytes of what the server precomputes and keeps; 0 if nothing.
    pub fn server_bytes(&self) -> u64 {
        self.parameters().server_bytes()
    }

    /// What the server does for one query.
    pub fn work(&self) -> Vec<Work> {
        self.parameters().work()
    }

    /// Bytes of memory that the server needs, with one query in flight.
    pub fn memory_bytes(&self) -> u64 {
        self.parameters().memory_bytes()
    }

    /// The probability that any number of a response is off by more than `share` of what decoding tolerates; `None` if
    /// there is no noise.
    pub fn exceedance(&self, share: f64) -> Option<Failure> {
        self.parameters().exceedance(share)
    }

    /// The probability that a record decodes wrongly; `None` if none ever does.
    pub fn failure(&self) -> Option<Failure> {
        self.parameters().failure()
    }

    /// The lattice parameter sets.
    pub fn sets(&self) -> Sets {
        self.parameters().sets()
    }

    /// The rows of the hint that clients download, if the protocol has one.
    pub fn hint_rows(&self) -> Option<HintRows> {
        self.sets().lwe.filter(|_| self.sizes().hint_bytes > 0).map(HintRows::of)
    }

    /// Security in bits.
    pub fn security_bits(&self) -> f64 {
        self.parameters().security_bits()
    }

    /// What is computed of a stored database once: the hint for clients and what the server keeps, of the
    /// sizes that the parameters say. `progress` is told the share that is done.
    ///
    /// # Errors
    /// The backend's; [`ProtocolError::Write`] if an output fails.
    pub fn precompute<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        matrix: &Path,
        outputs: Outputs<'_>,
        progress: &mut dyn FnMut(f64),
    ) -> Result<(), ProtocolError> {
        let mut hint = |layout: PanelLayout, public: PublicMatrix| {
            let matrix = backend.open(layout, matrix, Residence::Mapped)?;
            LweHint::compute(&**backend, &public, &matrix, &mut *progress)
        };
        let two_folds = |params: &Folded, first: &LweHint, server: &mut dyn Write| {
            let (shape, public) = (params.second(), params.second_matrix(params.grid.groups));
            double::precompute(&**backend, &shape, first, &public, server)
        };
        match self {
            Self::Simple(params) => hint(params.layout(), params.public_matrix())?.write(outputs.hint),
            Self::Double(double::Params(params)) => {
                let first = hint(params.layout(double::Params::SPREAD), params.public_matrix())?;
                two_folds(params, &first, outputs.server)?.write(outputs.hint)
            }
            Self::ExppackDouble(exppack_double::Params(params)) => {
                let first = hint(params.layout(exppack_double::Params::SPREAD), params.public_matrix())?;
                double::write_fixed(&params.second(), &first, outputs.server)
            }
            Self::ExppackSimple(exppack_simple::Params(params)) => {
                hint(params.layout(exppack_simple::Params::SPREAD), params.public_matrix())?
                    .write(outputs.server)
            }
            Self::DoublePack(double_pack::Params(params)) => {
                hint(params.layout(double_pack::Params::SPREAD), params.public_matrix())?
                    .write(outputs.server)
            }
            Self::Hybrid(hybrid::Params(params)) => {
                hint(params.layout(hybrid::Params::SPREAD), params.public_matrix())?.write(outputs.server)
            }
            Self::Onion(_) | Self::DpfXor(_) | Self::DpfSum(_) => Ok(()),
        }
    }

    /// The server half over a backend, of the files of a snapshot.
    ///
    /// # Errors
    /// If the files are not what the parameters say or the backend fails; [`ProtocolError::BadRequest`] if the
    /// protocol has two servers and `opening` does not say which.
    pub fn open_server<B: ProtocolBackend>(
        &self,
        backend: &Arc<B>,
        files: &Files,
        opening: Opening,
    ) -> Result<Box<dyn Responder>, ProtocolError> {
        let residence = opening.residence;
        let matrix = |layout: PanelLayout| backend.open(layout, &files.matrix, residence);
        let shared = Arc::clone(backend);
        match self {
            Self::Simple(params) => {
                let matrix = matrix(params.layout())?;
                Ok(Box::new(simple::Server::new(params.clone(), shared, matrix)?))
            }
            Self::Double(params) => {
                let matrix = matrix(params.0.layout(double::Params::SPREAD))?;
                let layout = params.0.second().fixed_layout();
                let fixed = backend.open(layout, &files.server, residence)?;
                Ok(Box::new(double::Server::new(params.clone(), shared, matrix, fixed)?))
            }
            Self::ExppackDouble(params) => {
                let matrix = matrix(params.0.layout(exppack_double::Params::SPREAD))?;
                let layout = params.0.second().fixed_layout();
                let fixed = backend.open(layout, &files.server, residence)?;
                Ok(Box::new(exppack_double::Server::new(params.clone(), shared, matrix, fixed)?))
            }
            Self::ExppackSimple(params) => {
                let matrix = matrix(params.0.layout(exppack_simple::Params::SPREAD))?;
                let hint = read_hint(&params.0, exppack_simple::Params::SPREAD, &files.server)?;
                Ok(Box::new(exppack_simple::Server::new(params.clone(), shared, matrix, &hint)?))
            }
            Self::DoublePack(params) => {
                let matrix = matrix(params.0.layout(double_pack::Params::SPREAD))?;
                let hint = read_hint(&params.0, double_pack::Params::SPREAD, &files.server)?;
                Ok(Box::new(double_pack::Server::new(params.clone(), shared, matrix, &hint)?))
            }
            Self::Hybrid(params) => {
                let matrix = matrix(params.0.layout(hybrid::Params::SPREAD))?;
                let hint = read_hint(&params.0, hybrid::Params::SPREAD, &files.server)?;
                Ok(Box::new(hybrid::Server::new(params.clone(), shared, matrix, &hint)?))
            }
            Self::Onion(params) => {
                let units = Units::open(&files.matrix, params.stored())?;
                let server =
                    onion::Server::new(params.clone(), shared, |unit, bytes| units.read(unit, bytes))?;
                units.check()?;
                Ok(Box::new(server))
            }
            Self::DpfXor(params) => open_party(params, shared, files, opening),
            Self::DpfSum(params) => open_party(params, shared, files, opening),
        }
    }

    /// The client half, with the hint's bytes. A protocol with evaluation keys draws the client's long-lived
    /// secret from `rng`.
    ///
    /// # Errors
    /// If the hint has another size.
    pub fn client(&self, hint: &[u8], rng: &mut SecretRng) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        self.client_with(hint, &[], rng)
    }

    /// [`ProtocolParams::client`] with evaluation keys among `known`, if there are some that fit.
    ///
    /// # Errors
    /// Those of [`ProtocolParams::client`].
    pub fn client_with(
        &self,
        hint: &[u8],
        known: &[RingKeys],
        rng: &mut SecretRng,
    ) -> Result<Box<dyn AnyIndexClient>, ProtocolError> {
        if hint.len() as u64 != self.sizes().hint_bytes {
            return Err(ProtocolError::malformed("hint", "it is not as long as the parameters say"));
        }
        Ok(match self.clone() {
            Self::Simple(params) => Box::new(simple::Client::new(params, hint)?),
            Self::Double(params) => Box::new(double::Client::new(params, hint)?),
            Self::ExppackSimple(params) => Box::new(exppack_simple::Client::new(params, known, rng)?),
            Self::ExppackDouble(params) => Box::new(exppack_double::Client::new(params, known, rng)?),
            Self::DoublePack(params) => Box::new(double_pack::Client::new(params, known, rng)?),
            Self::Hybrid(params) => Box::new(hybrid::Client::new(params, known, rng)?),
            Self::Onion(params) => Box::new(onion::Client::new(params, known, rng)?),
            Self::DpfXor(params) => Box::new(Pair(dpf::Client::new(params)?)),
            Self::DpfSum(params) => Box::new(Pair(dpf::Client::new(params)?)),
        })
    }
}

/// One of two servers.
fn open_party<S: dpf::Shares, B: ShareBackend>(
    params: &dpf::Params<S>,
    backend: Arc<B>,
    files: &Files,
    opening: Opening,
) -> Result<Box<dyn Responder>, ProtocolError> {
    let party = opening.one_of_two()?;
    let rows = backend.open_rows(params.layout(), &files.matrix, opening.residence)?;
    Ok(Box::new(dpf::Server::new(params.clone(), party, backend, rows)?))
}

/// The LWE hint of a first fold that a server keeps.
fn read_hint(params: &Folded, spread: Spread, path: &Path) -> Result<LweHint, ProtocolError> {
    let bytes = std::fs::read(path).map_err(|source| BackendError::Io { path: path.into(), source })?;
    LweHint::from_bytes(params.lwe_set(), params.grid.rows(spread), &bytes)
}

/// A file of units, read by several threads.
struct Units {
    file: File,
    path: PathBuf,
    failed: AtomicBool,
}

impl Units {
    fn open(path: &Path, stored: Stored) -> Result<Self, ProtocolError> {
        let failed = |source| BackendError::Io { path: path.into(), source };
        let file = File::open(path).map_err(failed)?;
        let (found, expected) = (file.metadata().map_err(failed)?.len(), stored.bytes());
        if found != expected {
            let detail = format!("the database has {found} bytes where the parameters say {expected}");
            return Err(BackendError::Shape(detail).into());
        }
        Ok(Self { file, path: path.into(), failed: AtomicBool::new(false) })
    }

    /// Reads a unit. A failure is told by [`Units::check`], since it happens in the middle of a step.
    fn read(&self, unit: usize, bytes: &mut [u8]) {
        use std::os::unix::fs::FileExt;
        if self.file.read_exact_at(bytes, unit as u64 * bytes.len() as u64).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
    }

    fn check(&self) -> Result<(), ProtocolError> {
        if self.failed.load(Ordering::Relaxed) {
            let source = std::io::Error::other("it could not be read to its end");
            return Err(BackendError::Io { path: self.path.clone(), source }.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::SecurityLevel;

    #[test]
    fn parameters_tell_what_was_chosen() {
        for name in NAMES {
            let wanted = [
                Choice { protocol: name.into(), ..Choice::default() },
                Choice {
                    protocol: name.into(),
                    set: Some("paper".into()),
                    ring: (name == "onion").then(|| "onion-30".into()),
                    security: SecurityLevel::Standard,
                    prf: PrfKind::ChaCha20,
                    words: dpf::Words::U64,
                },
            ];
            for choice in wanted {
                let params = ProtocolParams::choose(&choice, [1; 32], 300, 64).unwrap();
                assert_eq!(ProtocolParams::choose(&params.choice(), [1; 32], 300, 64).unwrap(), params);
                let other = params.reshaped([2; 32], 8, 1000).unwrap();
                assert_eq!((other.name(), other.set(), other.prf()), (name, params.set(), params.prf()));
                assert_eq!((other.records(), other.record_bytes()), (8, 1000));
                assert_eq!(other.seed(), params.seed().map(|_| [2; 32]));
                assert_eq!(other.reseeded([1; 32]).reshaped([1; 32], 300, 64).unwrap(), params);
                assert_eq!(params.reseeded([2; 32]).seed(), other.seed());
                assert_eq!(params.lasting_hint().is_some(), params.sizes().hint_bytes > 0, "{name}");
            }
        }
    }

    /// Clients that draw new keys have nothing to keep a hint for.
    #[test]
    fn no_protocol_has_both_keys_and_a_hint() {
        for name in NAMES {
            let choice = Choice { protocol: name.into(), ..Choice::default() };
            let sizes = ProtocolParams::choose(&choice, [1; 32], 300, 64).unwrap().sizes();
            assert!(sizes.keys_bytes == 0 || sizes.hint_bytes == 0, "{name}");
        }
    }

    #[test]
    fn only_one_of_two_servers_has_to_say_which() {
        let unsaid = Opening::default();
        let said = Opening { party: Some(Party::One), ..unsaid };
        assert!(unsaid.one_of_two().unwrap_err().to_string().contains("--party 0 or --party 1"));
        assert_eq!(said.one_of_two().unwrap(), Party::One);
        let alone = ProtocolParams::choose(&Choice::default(), [0; 32], 10, 32).unwrap();
        for opening in [unsaid, said] {
            assert_eq!(alone.party(opening).unwrap(), None);
        }
        assert_eq!(alone.openings(Residence::Copied), [unsaid]);
    }
}
