//! The macro that makes a registry from a list of protocols.

/// Defines an enum of protocols from a list with one line for each: documentation, name,
/// parameters.
///
/// JSON distinguishes the variants by name. The enum dereferences to a
/// [`Protocol`](crate::Protocol) for everything that does not depend on a backend.
#[macro_export]
macro_rules! registry {
    (
        $(#[$meta:meta])*
        $vis:vis enum $registry:ident over $backend:path {
            $($(#[$doc:meta])* $variant:ident = $name:literal: $params:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, $crate::registry::Serialize, $crate::registry::Deserialize)]
        #[serde(tag = "protocol")]
        #[non_exhaustive]
        $vis enum $registry {
            $($(#[$doc])* #[serde(rename = $name)] $variant($params),)*
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

            /// Returns tables for testing a protocol on a backend; `None` for an unknown name.
            pub fn specimens(protocol: &str) -> Option<$crate::protocol::Specimens> {
                match protocol {
                    $($name => Some(<$params as $crate::Protocol>::specimens()),)*
                    _ => None,
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
                        .map(Self::$variant),)*
                    name => Err($crate::choice::unknown("protocol", name, &Self::NAMES)),
                }
            }

            /// Returns the protocol on a backend that has the operations of every protocol in the
            /// list.
            pub fn on<B: $backend>(&self) -> &dyn $crate::Serve<B> {
                match self {
                    $(Self::$variant(params) => params,)*
                }
            }
        }

        impl std::ops::Deref for $registry {
            type Target = dyn $crate::Protocol;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$variant(params) => params,)*
                }
            }
        }

        impl std::ops::DerefMut for $registry {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$variant(params) => params,)*
                }
            }
        }
    };
}
