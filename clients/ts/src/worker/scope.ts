// Names of stored evaluation keys.

/**
 * Returns the part of a name that separates clients with different tokens. The server links keys to the token that registered
 * them: their use under another token would link both tokens. The name contains a hash of the token, never the token. If the page
 * has no hash function, the browser has no locks either, and no keys are stored.
 */
export async function keyScope(scope: string, token: string | undefined): Promise<string> {
  const { subtle } = globalThis.crypto as Partial<Crypto>;
  if (token === undefined || subtle === undefined) return scope;
  const hash = await subtle.digest("SHA-256", new TextEncoder().encode(`spirea keys of token ${token}`));
  const digits = Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0"));
  return `${scope} ${digits.join("")}`;
}
