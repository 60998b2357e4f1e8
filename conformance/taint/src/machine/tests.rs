//! Small modules, each with one effect of a secret.

use super::*;

/// Environment whose import writes the secret number 3, in 4 bytes.
struct Secret;

impl Surroundings for Secret {
    fn call(&mut self, _: &str, operands: &[Marked], memory: &mut Memory) -> Result<Option<Marked>, Trap> {
        memory.write(operands[0].value as usize, &3u32.to_le_bytes(), &[u8::MAX; 4])?;
        Ok(None)
    }
}

/// Returns the module whose `run` has this code, with a secret at address 0 and a public 3 at
/// address 8.
fn module(code: &str) -> Module {
    let text = format!(
        r#"(module
            (import "spirea" "random" (func $random (param i32)))
            (table funcref (elem $one $two $two $two))
            (memory 1)
            (data (i32.const 8) "\03\00\00\00because")
            (func $one (result i32) i32.const 1)
            (func $two (result i32) i32.const 2)
            (func $_ZN11spirea_math6secret12declassified17h0123456789abcdefE (param i32 i32 i32 i32))
            (func (export "run") (result i32) (local i32)
                (call $random (i32.const 0))
                {code}))"#
    );
    let bytes = wat::parse_str(text).unwrap();
    Module::read(&bytes, &bytes).unwrap()
}

/// Runs this code; returns the secret's effects, and the result.
fn run(code: &str) -> (Vec<Steering>, u32) {
    let module = module(code);
    let mut machine = Machine::new(&module, Secret).unwrap();
    let result = machine.call("run", &[]).unwrap();
    let found = machine.found.keys().map(|(_, steering)| *steering).collect();
    (found, result)
}

/// Runs this code with a public number in place of the secret.
fn run_public(code: &str) -> (Vec<Steering>, u32) {
    run(&code.replace(SECRET, PUBLIC))
}

const SECRET: &str = "(i32.load (i32.const 0))";
const PUBLIC: &str = "(i32.load (i32.const 8))";

#[test]
fn a_secret_that_steers_is_found() {
    let cases = [
        (Steering::Branch, "(if (result i32) SECRET (then (i32.const 7)) (else (i32.const 8)))", 7),
        (Steering::Branch, "(block (br_if 0 SECRET) (return (i32.const 8))) (i32.const 7)", 7),
        (Steering::Branch, "(block (block (br_table 0 1 SECRET)) (return (i32.const 8))) (i32.const 7)", 7),
        (Steering::Call, "(call_indirect (result i32) SECRET)", 2),
        (Steering::Address, "(i32.load offset=5 SECRET)", 3),
        (Steering::Address, "(i32.store8 SECRET (i32.const 7)) (i32.const 7)", 7),
        (Steering::Address, "(memory.fill (i32.const 64) (i32.const 1) SECRET) (i32.const 7)", 7),
        (Steering::Address, "(memory.copy (i32.const 64) SECRET (i32.const 1)) (i32.const 7)", 7),
        (Steering::Division, "(i32.and (i32.const 0) (i32.div_u (i32.const 9) SECRET))", 0),
        (Steering::Division, "(i32.and (i32.const 0) (i32.rem_s SECRET (i32.const 2)))", 0),
        (Steering::Export, "SECRET", 3),
    ];
    for (steering, code, result) in cases {
        let code = code.replace("SECRET", SECRET);
        assert_eq!(run(&code), (vec![steering], result), "{code}");
        assert_eq!(run_public(&code), (vec![], result), "{code}");
    }
}

#[test]
fn a_mark_goes_through_memory_locals_and_vectors() {
    let cases = [
        "(i32.store (i32.const 64) SECRET) (i32.load (i32.const 64))",
        "(local.set 0 SECRET) (local.get 0)",
        "(i32x4.extract_lane 1 (i32x4.splat SECRET))",
        "(memory.copy (i32.const 64) (i32.const 0) (i32.const 4)) (i32.load (i32.const 64))",
        "(memory.fill (i32.const 64) SECRET (i32.const 4)) (i32.and (i32.const 3) (i32.load (i32.const 64)))",
        "(select (i32.const 3) (i32.const 4) SECRET)",
        "(i32.trunc_sat_f64_s (f64.convert_i32_s SECRET))",
        "(i32.wrap_i64 (i64.extend_i32_s SECRET))",
    ];
    for code in cases {
        let code = code.replace("SECRET", SECRET);
        assert_eq!(run(&code), (vec![Steering::Export], 3), "{code}");
    }
}

#[test]
fn what_is_declassified_may_steer() {
    let code = "(call $_ZN11spirea_math6secret12declassified17h0123456789abcdefE
            (i32.const 0) (i32.const 4) (i32.const 12) (i32.const 7))
        (if (result i32) (i32.load (i32.const 0)) (then (i32.const 7)) (else (i32.const 8)))";
    let module = module(code);
    for (kept, found) in [(None, 0), (Some("because"), 1)] {
        let mut machine = Machine::new(&module, Secret).unwrap();
        machine.kept = kept.map(str::to_owned);
        assert_eq!(machine.call("run", &[]), Ok(7));
        assert_eq!(machine.found.len(), found);
        assert_eq!(machine.reasons.iter().map(String::as_str).collect::<Vec<_>>(), ["because"]);
    }
}

#[test]
fn the_place_of_a_finding_has_its_calls() {
    let module = module(&format!("(drop (i32.load {SECRET})) (i32.const 7)"));
    let mut machine = Machine::new(&module, Secret).unwrap();
    machine.call("run", &[]).unwrap();
    let calls: Vec<_> = machine.found.values().cloned().collect();
    assert_eq!(calls, [["function 4"]]);
}

#[test]
fn code_that_is_never_run_and_nested_blocks_lead_where_they_should() {
    let cases = [
        ("(block (result i32) (i32.const 5) (br 0) (block (unreachable)) (i32.const 6))", 5),
        (
            "(loop (local.set 0 (i32.add (local.get 0) (i32.const 1))) (br_if 0 (i32.lt_u (local.get 0) (i32.const 9)))) (local.get 0)",
            9,
        ),
        (
            "(block (result i32) (i32.const 1) (i32.const 2) (block (result i32) (i32.const 3) (br 1)) (drop) (drop))",
            3,
        ),
        ("(if (result i32) (i32.const 0) (then (unreachable)) (else (i32.const 4)))", 4),
        ("(if (i32.const 0) (then (return (i32.const 1)))) (i32.const 2)", 2),
    ];
    for (code, result) in cases {
        assert_eq!(run(code), (vec![], result), "{code}");
    }
}

#[test]
fn a_panic_ends_the_run() {
    let module = module("unreachable");
    let mut machine = Machine::new(&module, Secret).unwrap();
    assert_eq!(machine.call("run", &[]), Err(Trap::Unreachable));
}

#[test]
fn another_module_with_names_is_refused() {
    let [one, other] = ["(module (func))", "(module (func nop))"].map(|text| wat::parse_str(text).unwrap());
    assert!(Module::read(&one, &one).is_ok());
    assert!(matches!(Module::read(&one, &other), Err(crate::error::ModuleError::Differs(_))));
}

#[test]
fn an_operator_without_a_rule_is_an_error() {
    let bytes = wat::parse_str("(module (func (result f32) (f32.sqrt (f32.const 1))))").unwrap();
    let refused = Module::read(&bytes, &bytes).err().expect("there is no rule");
    assert!(refused.to_string().contains("F32Sqrt"), "{refused}");
}
