//! Devices, streams, buffers and graphs, under every order of the emulation.

use std::sync::Arc;

use spirea_cuda::driver::{Device, DriverError, Pinned, device_count};
use spirea_cuda_emulation::{Config, Emulation};

fn emulation() -> &'static Emulation {
    Emulation::install(Config { devices: 2, memory: 64 << 20, ..Config::default() })
}

fn numbers(count: usize) -> Vec<u32> {
    (0..count as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect()
}

#[test]
fn values_come_back_from_devices_and_from_other_devices() {
    emulation().in_every_order(|| {
        assert_eq!(device_count(), Ok(2));
        let [one, other] = [0, 1].map(|ordinal| Device::open(ordinal).unwrap());
        let values = numbers(1000);
        let here = one.upload(&values).unwrap();
        let there = other.alloc::<u32>(600).unwrap();
        one.enable_peer(&other).unwrap();
        let stream = other.main();
        stream.after(&one.main()).unwrap();
        stream.copy(&here.range(100..700), &there.all()).unwrap();
        one.main().after(&stream).unwrap();
        one.main().zero(&here.all()).unwrap();
        assert_eq!(stream.read(&there.all()).unwrap(), values[100..700]);
        assert_eq!(one.main().read(&here.all()).unwrap(), vec![0; 1000]);
    });
}

#[test]
fn pinned_values_are_copied_while_the_host_goes_on() {
    emulation().in_every_order(|| {
        let device = Device::open(0).unwrap();
        let mut pinned = Pinned::new(&device, 64).unwrap();
        pinned.copy_from_slice(&numbers(64));
        let pinned = Arc::new(pinned);
        let buffer = device.alloc::<u32>(32).unwrap();
        device.main().upload_pinned(&pinned, 16..48, &buffer.all()).unwrap();
        assert_eq!(device.main().read(&buffer.all()).unwrap(), numbers(64)[16..48]);
    });
}

#[test]
fn graphs_repeat_forked_work() {
    emulation().in_every_order(|| {
        let device = Device::open(0).unwrap();
        let buffers: Vec<_> = (0..3).map(|_| device.alloc::<u32>(100).unwrap()).collect();
        let (main, side) = (device.stream().unwrap(), device.stream().unwrap());
        let [first, second, third] = [0, 1, 2].map(|i| buffers[i].all());
        main.after(&device.main()).unwrap();
        let graph = main
            .capture(|main| {
                main.copy(&first, &second)?;
                side.after(main)?;
                side.copy(&second, &third)?;
                main.after(&side)?;
                main.zero(&first)
            })
            .unwrap();
        for round in 1..4 {
            let values = vec![round; 100];
            main.upload(&values, &first).unwrap();
            graph.launch(&main).unwrap();
            assert_eq!(main.read(&third).unwrap(), values);
            assert_eq!(main.read(&first).unwrap(), vec![0; 100]);
        }
        device.main().after(&main).unwrap();
    });
}

#[test]
fn room_runs_out_with_a_reason_and_nothing_leaks() {
    let emulation = emulation();
    let _alone = emulation.exclusive();
    emulation.reset();
    let device = Device::open(0).unwrap();
    let before = emulation.live(0);
    {
        let held = device.alloc::<u8>(48 << 20).unwrap();
        let error = device.alloc::<u8>(48 << 20).unwrap_err();
        assert!(matches!(error, DriverError::OutOfMemory { wanted, .. } if wanted == 48 << 20), "{error}");
        device.main().synchronize().unwrap();
        drop(held);
    }
    device.main().synchronize().unwrap();
    assert_eq!(emulation.live(0), before);
}

#[test]
fn what_is_computed_and_what_stays_have_room_of_their_own() {
    const MEBI: usize = 1 << 20;
    emulation().in_every_order(|| {
        let device = Device::open(0).unwrap();
        let free = || device.memory().unwrap().0;
        let all = free();
        let out_of_memory = |error: DriverError, bytes: usize| {
            assert!(matches!(error, DriverError::OutOfMemory { wanted, .. } if wanted == bytes), "{error}");
        };
        let stays = device.hold::<u8>(8 * MEBI).unwrap();
        let kept = device.alloc::<u8>(MEBI).unwrap();
        assert_eq!(free(), all - 9 * MEBI);

        let watch = device.watch().unwrap();
        assert_eq!(watch.passing_bytes(), Ok(0));
        drop([5, 3].map(|mebibytes| device.alloc::<u8>(mebibytes * MEBI).unwrap()));
        device.main().synchronize().unwrap();
        drop(device.alloc::<u8>(4 * MEBI).unwrap());
        assert_eq!((watch.passing_bytes(), watch.most_bytes()), (Ok(8 << 20), Ok(8 << 20)));
        assert_eq!(free(), all - 17 * MEBI, "the pool keeps what it had");
        assert_eq!(device.pool_room(), Ok(8 << 20));

        // Memory that the pool keeps is unavailable to `hold` until the pool releases it.
        let kept_too = device.alloc::<u8>(MEBI).unwrap();
        assert_eq!((watch.passing_bytes(), watch.most_bytes()), (Ok(7 << 20), Ok(8 << 20)));
        drop(kept_too);
        device.main().synchronize().unwrap();
        out_of_memory(device.hold::<u8>(free() + 1).map(drop).unwrap_err(), free() + 1);
        let filled = device.hold::<u8>(free()).unwrap();
        drop(device.alloc::<u8>(8 * MEBI).unwrap());
        device.main().synchronize().unwrap();
        out_of_memory(device.reserve((8 << 20) + 1).unwrap_err(), 8 * MEBI + 1);
        device.trim(3 << 20).unwrap();
        assert_eq!(free(), 5 * MEBI);
        drop(device.alloc::<u8>(3 * MEBI).unwrap());
        device.main().synchronize().unwrap();
        drop(filled);
        device.reserve((all - 9 * MEBI) as u64).unwrap();
        assert_eq!(free(), 0);
        device.trim(0).unwrap();
        assert_eq!(free(), all - 9 * MEBI);
        drop((stays, kept));
        device.main().synchronize().unwrap();
        device.trim(0).unwrap();
        assert_eq!(free(), all);
    });
}

#[test]
fn what_does_not_exist_is_refused() {
    let emulation = emulation();
    let _alone = emulation.exclusive();
    let error = Device::open(2).unwrap_err();
    assert_eq!(error, DriverError::NoSuchDevice { ordinal: 2, count: 2 });
    let device = Device::open(0).unwrap();
    assert!(matches!(device.kernel("no_such_kernel"), Err(DriverError::Kernels(_))));
}
