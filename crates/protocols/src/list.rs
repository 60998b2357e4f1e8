//! The macro that makes a registry of a list of protocols.

/// Makes a type that is one of some protocols, of a list with a line for each: what it is, its name, its parameters.
///
/// It is told by its name in JSON, and whatever does not depend on a backend is asked of it as of a [`Protocol`](crate::Protocol).
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

            /// Refuses a choice of a protocol or of parameter sets that there are not, or that are too weak.
            ///
            /// # Errors
            /// [`ProtocolError::BadRequest`]($crate::ProtocolError::BadRequest) that names what there is.
            pub fn check(choice: &$crate::choice::Choice) -> Result<(), $crate::ProtocolError> {
                match choice.protocol.as_str() {
                    $($name => <$params as $crate::Protocol>::check_bins(choice)
                        .and_then(|()| <$params as $crate::Protocol>::check_keys(choice))
                        .and_then(|()| <$params as $crate::Protocol>::check(choice)),)*
                    name => Err($crate::choice::unknown("protocol", name, &Self::NAMES)),
                }
            }

            /// Refuses a way of delivering keys that a protocol does not have.
            ///
            /// # Errors
            /// [`ProtocolError::BadRequest`]($crate::ProtocolError::BadRequest), for a name that there is not too.
            pub fn check_keys(choice: &$crate::choice::Choice) -> Result<(), $crate::ProtocolError> {
                match choice.protocol.as_str() {
                    $($name => <$params as $crate::Protocol>::check_keys(choice),)*
                    name => Err($crate::choice::unknown("protocol", name, &Self::NAMES)),
                }
            }

            /// Tables for whoever checks a protocol on a backend; none for a name that there is not.
            pub fn specimens(protocol: &str) -> Option<$crate::protocol::Specimens> {
                match protocol {
                    $($name => Some(<$params as $crate::Protocol>::specimens()),)*
                    _ => None,
                }
            }

            /// The cheapest shape of records under a protocol.
            ///
            /// # Errors
            /// [`ProtocolError::BadRequest`]($crate::ProtocolError::BadRequest) for a name that there is not, or records
            /// that fit no shape.
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

            /// The protocol on a backend that has what each of them needs.
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
