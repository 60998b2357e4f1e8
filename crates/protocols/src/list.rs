//! The macro that makes a registry from a list of protocols.

/// Defines an enum of protocols from a list with one line for each: documentation, name,
/// parameters.
///
/// The macro defines two types. The enum has a variant for each protocol, which JSON distinguishes
/// by name. It dereferences to a [`Protocol`](crate::Protocol) for everything that does not depend
/// on a backend. The struct holds valid parameters of one of the protocols, and their profile,
/// computed once. It dereferences to the [`Profile`](crate::parameters::Profile).
#[macro_export]
macro_rules! registry {
    (
        $(#[$meta:meta])*
        $vis:vis struct $registry:ident($any:ident) over $backend:path {
            $($(#[$doc:meta])* $variant:ident = $name:literal: $params:ty,)*
        }
    ) => {
        /// The parameters of a protocol, without their profile. Parameters from untrusted bytes
        /// may be invalid.
        #[derive(Clone, Debug, PartialEq, Eq, $crate::registry::Serialize, $crate::registry::Deserialize)]
        #[serde(tag = "protocol")]
        #[non_exhaustive]
        $vis enum $any {
            $($(#[$doc])* #[serde(rename = $name)] $variant($params),)*
        }

        $(#[$meta])*
        #[derive(Clone)]
        $vis struct $registry {
            params: $any,
            profile: std::sync::Arc<$crate::parameters::Profile>,
        }

        impl $registry {
            /// Names of the protocols.
            pub const NAMES: [&'static str; [$($name),*].len()] = [$($name),*];

            /// Refuses a choice with an unknown protocol or parameter set, or with a set that is
            /// too weak.
            ///
            /// # Errors
            /// [`ProtocolError::BadRequest`]($crate::ProtocolError::BadRequest) that lists the
            /// known names.
            pub fn check(choice: &$crate::choice::Choice) -> Result<(), $crate::ProtocolError> {
                match choice.protocol.as_str() {
                    $($name => <$params as $crate::Protocol>::check_bins(choice)
                        .and_then(|()| <$params as $crate::Protocol>::check_keys(choice))
                        .and_then(|()| <$params as $crate::Protocol>::check(choice)),)*
                    name => Err($crate::choice::unknown("protocol", name, &Self::NAMES)),
                }
            }

            /// Refuses a key delivery that the protocol does not have.
            ///
            /// # Errors
            /// [`ProtocolError::BadRequest`]($crate::ProtocolError::BadRequest), also for an
            /// unknown name.
            pub fn check_keys(choice: &$crate::choice::Choice) -> Result<(), $crate::ProtocolError> {
                match choice.protocol.as_str() {
                    $($name => <$params as $crate::Protocol>::check_keys(choice),)*
                    name => Err($crate::choice::unknown("protocol", name, &Self::NAMES)),
                }
            }

            /// Chooses the cheapest shape of records under a protocol.
            ///
            /// # Errors
            /// [`ProtocolError::BadRequest`]($crate::ProtocolError::BadRequest) for an unknown
            /// name, or records that fit no shape.
            pub fn choose(
                choice: &$crate::choice::Choice,
                seed: $crate::registry::Seed,
                records: u64,
                record_bytes: usize,
            ) -> Result<Self, $crate::ProtocolError> {
                match choice.protocol.as_str() {
                    $($name => <$params as $crate::Protocol>::check_bins(choice)
                        .and_then(|()| <$params as $crate::Protocol>::check_keys(choice))
                        .and_then(|()| <$params as $crate::Protocol>::choose(choice, seed, records, record_bytes))
                        .map(|params| $any::$variant(params).into()),)*
                    name => Err($crate::choice::unknown("protocol", name, &Self::NAMES)),
                }
            }

            /// Returns the protocol on a backend that has the operations of every protocol in the
            /// list.
            pub fn on<B: $backend>(&self) -> &dyn $crate::Serve<B> {
                match &self.params {
                    $($any::$variant(params) => params,)*
                }
            }

            /// Returns the parameters by protocol.
            pub fn any(&self) -> &$any {
                &self.params
            }

            /// See [`Protocol::choice`]($crate::Protocol::choice).
            pub fn choice(&self) -> $crate::choice::Choice {
                self.params.choice()
            }

            /// See [`Protocol::delta_choice`]($crate::Protocol::delta_choice).
            pub fn delta_choice(&self) -> $crate::choice::Choice {
                self.params.delta_choice()
            }

            /// See [`Protocol::seed`]($crate::Protocol::seed).
            pub fn seed(&self) -> Option<$crate::registry::Seed> {
                self.params.seed()
            }

            /// See [`Protocol::hint_lasts`]($crate::Protocol::hint_lasts).
            pub fn hint_lasts(&self) -> bool {
                self.params.hint_lasts()
            }

            /// See [`Parameters::exceedance`]($crate::parameters::Parameters::exceedance).
            pub fn exceedance(&self, share: f64) -> Option<$crate::parameters::Failure> {
                self.params.exceedance(share)
            }

            /// Makes the client half from a hint. If the protocol has evaluation keys, the client
            /// reuses known keys that fit, or else draws its long-lived secret from `rng`.
            ///
            /// # Errors
            /// [`ProtocolError::Malformed`]($crate::ProtocolError::Malformed) if the hint does not
            /// have the length that the profile gives.
            pub fn client(
                &self,
                hint: &[u8],
                keys: &[$crate::ClientKeys],
                rng: &mut $crate::registry::SecretRng,
            ) -> Result<Box<dyn $crate::AnyIndexClient>, $crate::ProtocolError> {
                self.profile.check_hint(hint)?;
                self.params.client_of($crate::Holdings { hint, keys }, rng)
            }

            /// Returns the same parameters under another seed. A protocol with neither public
            /// matrices nor a pad ignores it.
            #[must_use]
            pub fn reseeded(&self, seed: $crate::registry::Seed) -> Self {
                let mut params = self.params.clone();
                std::ops::DerefMut::deref_mut(&mut params).reseed(seed);
                Self { params, profile: self.profile.clone() }
            }

            /// Parses parameters and validates them.
            ///
            /// # Errors
            /// [`ProtocolError::Malformed`]($crate::ProtocolError::Malformed) with the cause.
            pub fn from_json(json: &[u8]) -> Result<Self, $crate::ProtocolError> {
                let params: $any = $crate::registry::parse(json)?;
                params.validate()?;
                Ok(params.into())
            }
        }

        /// Computes the profile of valid parameters; panics if they are invalid.
        impl From<$any> for $registry {
            fn from(params: $any) -> Self {
                let profile = std::ops::Deref::deref(&params).profile().into();
                Self { params, profile }
            }
        }

        impl PartialEq for $registry {
            fn eq(&self, other: &Self) -> bool {
                self.params == other.params
            }
        }

        impl Eq for $registry {}

        impl std::fmt::Debug for $registry {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.params.fmt(f)
            }
        }

        impl $crate::registry::Serialize for $registry {
            fn serialize<S: $crate::registry::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.params.serialize(serializer)
            }
        }

        /// Refuses invalid parameters.
        impl<'de> $crate::registry::Deserialize<'de> for $registry {
            fn deserialize<D: $crate::registry::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let params = <$any as $crate::registry::Deserialize>::deserialize(deserializer)?;
                params.validate().map_err($crate::registry::Error::custom)?;
                Ok(params.into())
            }
        }

        impl std::ops::Deref for $registry {
            type Target = $crate::parameters::Profile;

            fn deref(&self) -> &Self::Target {
                &self.profile
            }
        }

        impl std::ops::Deref for $any {
            type Target = dyn $crate::Protocol;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$variant(params) => params,)*
                }
            }
        }

        impl std::ops::DerefMut for $any {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$variant(params) => params,)*
                }
            }
        }
    };
}
