//! Functions of a token, compiled with the features that it proves.
//!
//! Inside such a function an intrinsic that takes and returns values is safe, so the function is
//! safe code. An intrinsic that takes a pointer does not compile there without its own `unsafe`.

/// Compiles a function with the features that a token proves. Calling it is unsafe, and its caller
/// must hold the token. The tokens of AES and of bit matrices are in `dpf`.
#[rustfmt::skip]
macro_rules! enabled {
    ($features:literal, $function:item) => { #[target_feature(enable = $features)] $function };
    (Sse2,    $function:item) => { $crate::isa::enabled! { "sse2", $function } };
    (Avx2,    $function:item) => { $crate::isa::enabled! { "avx2", $function } };
    (Avx512,  $function:item) => { $crate::isa::enabled! { "avx512f,avx512bw,avx512vnni", $function } };
    (AesNi,   $function:item) => { $crate::isa::enabled! { "aes", $function } };
    (Vaes,    $function:item) => { $crate::isa::enabled! { "avx2,vaes", $function } };
    (Gfni256, $function:item) => { $crate::isa::enabled! { "avx2,gfni", $function } };
    (Gfni512, $function:item) => { $crate::isa::enabled! { "avx512f,avx512bw,avx2,gfni", $function } };
    (Vaes512, $function:item) => { $crate::isa::enabled! { "avx512f,avx512bw,vaes", $function } };
}
pub(crate) use enabled;

/// Defines methods of a token whose bodies are compiled with its features. The first argument is
/// the token.
macro_rules! compiled {
    ($token:ident: $(
        $(#[$attribute:meta])*
        fn $name:ident $(<$generic:ident: $bound:path>)? (
            $lanes:ident $(, $argument:ident: $type:ty)*
        ) $(-> $output:ty)? $body:block
    )*) => {$(
        $(#[$attribute])*
        #[allow(unsafe_code)]
        fn $name $(<$generic: $bound>)? (self $(, $argument: $type)*) $(-> $output)? {
            $crate::isa::enabled!($token,
                fn compiled $(<$generic: $bound>)? ($lanes: $token $(, $argument: $type)*) $(-> $output)? $body
            );
            // SAFETY: `self` proves the features.
            unsafe { compiled(self $(, $argument)*) }
        }
    )*};
}
pub(crate) use compiled;

/// Defines a token's operations on vectors as a table: `name(operands) = expression;`. Operands and
/// results have the vector type at the head of the table unless another type is given.
///
/// Methods are always inlined, so that operations are compiled with the caller's instructions.
macro_rules! operations {
    ($token:ident, $vector:ty: $(
        $name:ident $(<const $constant:ident: $number:ty>)? (
            $($operand:ident $(: $type:ty)?),*
        ) $(-> $output:ty)? = $expression:expr;
    )*) => {$(
        #[inline(always)]
        #[allow(unsafe_code)]
        fn $name $(<const $constant: $number>)? (
            self $(, $operand: $crate::isa::or_vector!($vector $(, $type)?))*
        ) -> $crate::isa::or_vector!($vector $(, $output)?) {
            $crate::isa::enabled!($token,
                #[inline]
                fn compiled $(<const $constant: $number>)? (
                    _: $token $(, $operand: $crate::isa::or_vector!($vector $(, $type)?))*
                ) -> $crate::isa::or_vector!($vector $(, $output)?) {
                    $expression
                }
            );
            // SAFETY: `self` proves the features.
            unsafe { compiled $(::<$constant>)? (self $(, $operand)*) }
        }
    )*};
}
pub(crate) use operations;

/// Type of an operand or a result in a table: the vector type unless another type is given.
macro_rules! or_vector {
    ($vector:ty) => {
        $vector
    };
    ($vector:ty, $type:ty) => {
        $type
    };
}
pub(crate) use or_vector;
