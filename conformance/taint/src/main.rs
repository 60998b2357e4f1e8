//! Checks a visit of the client's WebAssembly module: no control flow and no address may depend on
//! a secret.
//!
//! usage: `taint MODULE NAMED PLAN`
//!
//! MODULE is the shipped module, and NAMED the same module with the names of its functions. PLAN is
//! a [`Plan`] as JSON. Prints one JSON object: the values, the reasons for which marks were ended,
//! every place where a secret has an effect with the calls that led there, and counts of the
//! executed work. `tests/system/test_constant_time_web.py` runs it.
#![allow(clippy::print_stdout, reason = "what was found is for the test to judge")]

use std::collections::BTreeSet;
use std::error::Error;

use serde_json::json;
use spirea_taint::module::Module;
use spirea_taint::visit::{Plan, visit};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [shipped, named, plan] = &arguments[..] else { return Err("usage: taint MODULE NAMED PLAN".into()) };
    let module = Module::read(&std::fs::read(shipped)?, &std::fs::read(named)?)?;
    let plan: Plan = serde_json::from_str(plan)?;
    let visited = visit(&module, &plan)?;
    let machines = || visited.machines.iter();
    let found = machines().flat_map(|machine| &machine.found);
    let found: Vec<_> = found
        .map(|((offset, steering), calls)| json!({"what": steering.to_string(), "offset": offset, "calls": calls}))
        .collect();
    let reasons: BTreeSet<_> = machines().flat_map(|machine| &machine.reasons).collect();
    let selects: BTreeSet<_> = machines().flat_map(|machine| &machine.selects).collect();
    let said = json!({
        "values": visited.values,
        "reasons": reasons,
        "found": found,
        "selects": selects.len(),
        "instructions": machines().map(|machine| machine.steps).sum::<u64>(),
    });
    println!("{said}");
    Ok(())
}
