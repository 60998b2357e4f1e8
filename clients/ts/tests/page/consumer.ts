// A program that is compiled against the package's types, in strict mode.
import { Client, type Description, type Domain, SpireaError, Value } from "spirea";

export async function verdict(url: string, key: string, signal: AbortSignal): Promise<string | undefined> {
  const client = await Client.connect([url], { database: "domains", pinnedKey: "00", signal, onProgress: ({ phase }) => void phase });
  try {
    const description: Description = client.description;
    const [value]: (Value | undefined)[] = await client.getMany([key, new Uint8Array([1])], { signal });
    const { matches, unasked }: Domain = await client.getDomain(key, { parents: 3, signal });
    if (unasked.length === 0) return matches.get(key)?.text();
    return value?.text(description.fields[0]);
  } catch (error) {
    if (error instanceof SpireaError && error.code === "unreachable") return undefined;
    throw error;
  } finally {
    await client.close();
  }
}

// @ts-expect-error: a database has a name.
void Client.connect("http://127.0.0.1", {});

// @ts-expect-error: connect makes clients.
void new Client();
