// Names under which evaluation keys are kept.

/**
 * Returns the part of a name that is one client's alone. The server knows the keys that a token registered as that token's:
 * under another token they would join both. The name has a hash of the token, never the token. Where the page has no way to
 * hash, the browser gives no locks either, and no keys are kept.
 */
export async function keyScope(scope: string, token: string | undefined): Promise<string> {
  const { subtle } = globalThis.crypto as Partial<Crypto>;
  if (token === undefined || subtle === undefined) return scope;
  const hash = await subtle.digest("SHA-256", new TextEncoder().encode(`spirea keys of token ${token}`));
  const digits = Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0"));
  return `${scope} ${digits.join("")}`;
}
