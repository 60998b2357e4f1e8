//! Checks of `scalar_fold` and `module_fold`: every kernel of the device against the CPU.

use std::sync::{Arc, OnceLock};

use anyhow::ensure;
use spirea_backend::{Backend as _, MAX_BATCH, PanelLayout, RING_DEGREE, RingMatrix};
use spirea_cuda::driver::Compute;
use spirea_cuda::{CudaBackend, CudaMatrix, ScalarFoldKernel};
use spirea_math::random::{Seed, public_row};

use super::{Check, Scale, Subject};

/// Contents with extreme values of every sum.
#[derive(Clone, Copy, Debug)]
enum Content {
    Random,
    Maximal,
    Alternating,
    Zero,
}

impl Content {
    fn bytes(self, count: usize) -> Vec<u8> {
        match self {
            Self::Random => {
                random(1, count.div_ceil(4)).into_iter().flat_map(u32::to_le_bytes).take(count).collect()
            }
            Self::Maximal => vec![255; count],
            Self::Alternating => (0..count).map(|i| if i % 2 == 0 { 0 } else { 255 }).collect(),
            Self::Zero => vec![0; count],
        }
    }

    fn words(self, count: usize) -> Vec<u32> {
        match self {
            Self::Random | Self::Zero => random(2, count),
            Self::Maximal => vec![u32::MAX; count],
            Self::Alternating => {
                (0..count).map(|i| if i % 2 == 0 { 0x8000_0000 } else { 0x7fff_ffff }).collect()
            }
        }
    }
}

/// Returns reproducible random words.
pub(super) fn random(stream: u64, count: usize) -> Vec<u32> {
    let mut words = vec![0; count];
    public_row(&Seed::new([0xc4; 32]), stream, &mut words);
    words
}

/// A matrix with queries, and the CPU's answers to them.
struct Case {
    matrix: CudaMatrix,
    queries: Vec<u32>,
    answers: Vec<u32>,
}

impl Case {
    fn new(subject: &Subject, layout: PanelLayout, content: Content, batch: usize) -> anyhow::Result<Self> {
        let bytes = content.bytes(layout.bytes());
        let queries = content.words(batch * layout.columns());
        let reference = subject.cpu.upload(layout, &bytes)?;
        let answers = subject.cpu.words(subject.cpu.scalar_fold(&reference, &queries)?)?;
        Ok(Self { matrix: subject.cuda.upload(layout, &bytes)?, queries, answers })
    }

    /// Compares the answers to the first `batch` queries.
    fn compare(&self, cuda: &CudaBackend, kernel: ScalarFoldKernel, batch: usize) -> anyhow::Result<()> {
        let layout = self.matrix.layout();
        let folded =
            cuda.scalar_fold_with(kernel, &self.matrix, &self.queries[..batch * layout.columns()])?;
        let found = cuda.words(folded)?;
        let expected = &self.answers[..batch * layout.rows()];
        ensure!(found.len() == expected.len(), "{} words of answers, not {}", found.len(), expected.len());
        if let Some(at) = found.iter().zip(expected).position(|(found, expected)| found != expected) {
            let (query, row) = (at / layout.rows(), at % layout.rows());
            anyhow::bail!(
                "batch {batch}, query {query}, row {row}: {:#010x}, the CPU has {:#010x}",
                found[at],
                expected[at]
            );
        }
        Ok(())
    }
}

pub(super) fn checks(subject: &Subject) -> Vec<Check> {
    let (shapes, batches): (&[(usize, usize)], &[usize]) = match subject.scale {
        Scale::Full => (
            &[(1, 1), (33, 5), (300, 1284), (4100, 16_388), (8192, 8192)],
            &[1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 32, 33, 64, 100, 128, MAX_BATCH],
        ),
        Scale::Tiny => (&[(1, 1), (70, 132), (300, 516)], &[1, 2, 3, 8, 9, 17, 33]),
    };
    let hopper = subject.cuda.device().properties().compute == Compute::WARPGROUPS;
    let mut kernels = vec![ScalarFoldKernel::Vector, ScalarFoldKernel::Mma];
    if hopper {
        kernels.push(ScalarFoldKernel::Wgmma);
    }
    let mut checks = Vec::new();
    for &(rows, columns) in shapes {
        for content in [Content::Random, Content::Maximal, Content::Alternating, Content::Zero] {
            // All kernels share one upload and one reference.
            let shared: Arc<OnceLock<Case>> = Arc::default();
            for &kernel in &kernels {
                let (subject, shared) = (subject.clone(), Arc::clone(&shared));
                let name = format!("scalar_fold {kernel:?} {rows} x {columns} {content:?}").to_lowercase();
                checks.push(Check::new(name, move || {
                    if shared.get().is_none() {
                        let layout = PanelLayout::covering(rows, columns)?;
                        let most = batches.iter().max().copied().unwrap_or(1);
                        let _ = shared.set(Case::new(&subject, layout, content, most)?);
                    }
                    let case = shared.get().expect("it was just set");
                    batches.iter().try_for_each(|&batch| case.compare(&subject.cuda, kernel, batch))?;
                    Ok(String::new())
                }));
            }
        }
    }
    let shapes: &[(usize, usize, usize)] = match subject.scale {
        Scale::Full => &[(40, 1, 1), (2048, 4, 5), (8192, 32, 5)],
        Scale::Tiny => &[(40, 1, 1)],
    };
    for &(rows, blocks, rank) in shapes {
        let subject = subject.clone();
        let name = format!("module_fold {rows} x {} rank {rank}", blocks * RING_DEGREE);
        checks.push(Check::new(name, move || module_fold(&subject, rows, blocks, rank)));
    }
    checks
}

fn module_fold(subject: &Subject, rows: usize, blocks: usize, rank: usize) -> anyhow::Result<String> {
    let layout = PanelLayout::covering(rows, blocks * RING_DEGREE)?;
    for content in [Content::Random, Content::Maximal] {
        let bytes = content.bytes(layout.bytes());
        let coefficients = content.words(blocks * rank * RING_DEGREE);
        let public = RingMatrix { coefficients: &coefficients, block_rows: blocks, rank };
        let expected = subject.cpu.module_fold(&subject.cpu.upload(layout, &bytes)?, public)?;
        let found = subject.cuda.module_fold(&subject.cuda.upload(layout, &bytes)?, public)?;
        ensure!(found == expected, "{content:?}: the CPU has another product");
    }
    Ok(String::new())
}
