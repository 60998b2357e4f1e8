//! Rules of the hardware: programs and host transfers that each break one.

use spirea_pim::sdk::{DpuSet, Sdk as _, Symbol};
use spirea_pim::{Emulation, EmulationConfig, Execution, PimError};

fn set(config: EmulationConfig) -> Result<Box<dyn DpuSet>, PimError> {
    let mut set = Emulation::new(EmulationConfig { dpus: 2, ..config })?.alloc(None)?;
    set.load()?;
    Ok(set)
}

fn planted(name: &str) -> Result<(), PimError> {
    set(EmulationConfig { planted: Some(name.into()), ..EmulationConfig::default() })?.launch()
}

#[test]
fn programs_that_break_a_rule_are_faults() {
    planted("right").unwrap();
    for (name, words) in [
        ("short_copy", "a copy of 4 bytes"),
        ("long_copy", "a copy of 2056 bytes"),
        ("odd_copy", "a copy of 12 bytes"),
        ("misaligned_mram", "at 4 of MRAM"),
        ("misaligned_wram", "place of WRAM"),
        ("beyond_mram", "beyond the 67108864 bytes of MRAM"),
        ("beyond_heap", "beyond the 8 bytes of WRAM"),
        ("large_heap", "no room in WRAM"),
        ("deep_stack", "the stack has more than its 512 bytes"),
        ("lonely_barrier", "wait at a barrier"),
        ("excessive_barrier", "wait at a barrier"),
    ] {
        match planted(name) {
            Err(PimError::Fault(reason)) => assert!(reason.contains(words), "{name}: {reason}"),
            other => panic!("{name}: {other:?}"),
        }
    }
    assert!(matches!(planted("no_such"), Err(PimError::Program(_))));
}

#[test]
fn a_dpu_in_fault_stays_in_fault() {
    let mut set =
        set(EmulationConfig { planted: Some("odd_copy".into()), ..EmulationConfig::default() }).unwrap();
    for _ in 0..2 {
        assert!(matches!(set.launch(), Err(PimError::Fault(_))));
    }
}

#[test]
fn machines_that_cannot_be_are_refused() {
    let new = |config| Emulation::new(config).err();
    let default = EmulationConfig::default;
    for tasklets in [0, 25] {
        assert_eq!(new(EmulationConfig { tasklets, ..default() }), Some(PimError::Tasklets(tasklets)));
    }
    for config in [
        EmulationConfig { dpus: 0, ..default() },
        EmulationConfig { threads: 0, ..default() },
        EmulationConfig { mram_bytes: 0, ..default() },
        EmulationConfig { mram_bytes: 12, ..default() },
        EmulationConfig { mram_bytes: (64 << 20) + 8, ..default() },
    ] {
        assert!(matches!(new(config), Some(PimError::Settings(_))));
    }
    let deep = set(EmulationConfig { tasklets: 24, stack_bytes: 4096, ..default() }).err();
    assert!(matches!(deep, Some(PimError::Wram(_))), "{deep:?}");
    // The interpreter's image is for 16 tasklets.
    let other = EmulationConfig { tasklets: 11, execution: Execution::Interpreted, ..default() };
    assert!(matches!(set(other).unwrap().launch(), Err(PimError::Fault(_))));
}

#[test]
fn transfers_of_the_host_are_checked() {
    let machine = Emulation::new(EmulationConfig { dpus: 2, ..EmulationConfig::default() }).unwrap();
    let mut set = machine.alloc(None).unwrap();
    let heap = Symbol::MramHeap;
    // A set without a program has no symbols.
    assert!(matches!(set.broadcast_to(heap, 0, &[0; 8]), Err(PimError::Program(_))));
    assert!(matches!(set.launch(), Err(PimError::Program(_))));
    set.load().unwrap();
    let refused =
        |outcome: Result<(), PimError>| assert!(matches!(outcome, Err(PimError::Transfer(_))), "{outcome:?}");
    refused(set.broadcast_to(heap, 4, &[0; 8]));
    refused(set.broadcast_to(heap, 0, &[0; 12]));
    refused(set.broadcast_to(heap, 64 << 20, &[0; 8]));
    refused(set.broadcast_to(heap, usize::MAX - 7, &[0; 8]));
    refused(set.broadcast_to(Symbol::Arguments, 0, &[0; 56]));
    refused(set.push_to(heap, 0, &[Some(&[0; 8])]));
    refused(set.push_to(heap, 0, &[Some(&[0; 8]), Some(&[0; 16])]));
    refused(set.push_from(heap, 0, &mut [0; 9]));
    refused(set.push_from(heap, (64 << 20) - 8, &mut [0; 32]));
    refused(set.copy_from(2, heap, 0, &mut [0; 8]));
    refused(set.copy_from(0, heap, 2, &mut [0; 8]));

    set.push_to(heap, 16, &[None, Some(&[7; 8])]).unwrap();
    let mut both = [1; 16];
    set.push_from(heap, 16, &mut both).unwrap();
    assert_eq!(both, [[0; 8], [7; 8]].concat()[..]);
    let mut one = [0; 8];
    set.copy_from(1, heap, 16, &mut one).unwrap();
    assert_eq!(one, [7; 8]);
}

#[test]
fn dpus_are_freed_with_their_set() {
    let machine = Emulation::new(EmulationConfig { dpus: 5, ..EmulationConfig::default() }).unwrap();
    let first = machine.alloc(Some(3)).unwrap();
    assert!(matches!(machine.alloc(Some(3)).err(), Some(PimError::Allocation { wanted: 3, free: 2 })));
    assert_eq!(machine.alloc(None).unwrap().dpus(), 2);
    drop(first);
    assert_eq!(machine.alloc(None).unwrap().dpus(), 5);
    assert!(machine.alloc(Some(0)).is_err());
}
