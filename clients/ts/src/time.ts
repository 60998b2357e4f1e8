// Timeouts.

/** The longest time of a timer, in milliseconds. */
export const LONGEST_MS = 2 ** 31 - 1;

/**
 * Awaits a promise for at most `ms` milliseconds.
 * @throws the result of `late` after that.
 */
export async function within<T>(ms: number, awaited: Promise<T>, late: () => Error): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const tooLate = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), Math.min(ms, LONGEST_MS));
  });
  try {
    return await Promise.race([awaited, tooLate]);
  } finally {
    clearTimeout(timer);
  }
}
