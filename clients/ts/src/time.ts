// Limits of time.

/** The longest that a timer takes, in milliseconds. */
export const LONGEST_MS = 2 ** 31 - 1;

/**
 * What is awaited, if it comes within so many milliseconds.
 * @throws what `late` makes if it does not.
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
