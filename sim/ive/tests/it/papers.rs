//! The simulator, compared with its paper: `papers/ive.toml` has the paper's values, and states the
//! effect of each parameter.

use spirea_conformance::{Count, is_drawn};
use spirea_ive::arch::Arch;
use spirea_ive::reproduce::{PARTS, Reproduction};
use spirea_papers::check::{Model, Part, with_values};
use spirea_papers::documents::hold;
use spirea_papers::{Claim, IVE, Paper};

fn compute(text: &str) -> Result<Vec<Part>, String> {
    let arch = Arch::read("changed.toml", text).map_err(|error| error.to_string())?;
    let part = |part| -> Part {
        let arch = arch.clone();
        Box::new(move || Reproduction::of(&arch, &[part]).rows)
    };
    Ok(PARTS.map(part).into())
}

/// The long form changes every parameter. The short and the full form draw some of them.
#[test]
fn rows_and_parameters_are_as_the_file_says() {
    let paper = &Paper::read(IVE);
    let keys: Vec<&str> = paper.parameters.iter().map(|parameter| &*parameter.key).collect();
    let count = Count { short: 20, full: 20 };
    let is_tested = |key: &str| is_drawn("parameters of the accelerator", &keys, count, key);
    let parameters = Arch::ive_text();
    let model = Model { paper, parameters, compute: &compute, is_tested: &is_tested };
    assert_eq!(model.problems(), [""; 0]);
}

/// Tests that `other` has the values of a machine without fitted values.
#[test]
fn the_file_has_the_values_of_the_machine_with_and_without_fits() {
    let arch = Arch::ive().unwrap();
    let mut without = arch.clone();
    without.scheme.transform_multiplications = 1.0;
    (without.hbm.efficiency, without.hbm.turnaround_ns, without.lpddr.efficiency) = (1.0, 0.0, 1.0);
    let [with, without] = [arch, without].map(|arch| Reproduction::of(&arch, &PARTS).rows);
    let both = with.into_iter().zip(without);
    let claims: Vec<Claim> =
        both.map(|(with, without)| Claim { other: Some(without.ours), ..with }).collect();
    hold("papers/ive.toml", &with_values(IVE, &claims)).unwrap();
}
