// Inspects and changes the browser's storage. For tests only.

function opened() {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open("spirea");
    // Does not create the database if the package has not stored anything yet.
    request.onupgradeneeded = () => request.transaction.abort();
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}

async function perform(mode, act) {
  const database = await opened();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction("records", mode);
      const records = transaction.objectStore("records");
      const [names, values] = [records.getAllKeys(), records.getAll()];
      let result;
      values.onsuccess = () => {
        result = act(records, names.result.map((name, i) => [name, values.result[i]]));
      };
      transaction.oncomplete = () => resolve(result);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Returns all records: names, and bytes in hexadecimal digits. */
export const dump = () => perform("readonly", (_, all) => all.map(([name, value]) => [name, hex(value)]));

/** Returns the number of stored bytes of each kind. */
export const sizes = () =>
  perform("readonly", (_, all) => {
    const sum = {};
    for (const [[kind], value] of all) sum[kind] = (sum[kind] ?? 0) + value.length;
    return sum;
  });

/** Returns the number of stored records of each kind. */
export const counts = () =>
  perform("readonly", (_, all) => {
    const count = {};
    for (const [[kind]] of all) count[kind] = (count[kind] ?? 0) + 1;
    return count;
  });

/** Returns the number of stored bytes of each hint; empty if the package has not stored anything yet. */
export const hints = () =>
  perform("readonly", (_, all) => {
    const sum = {};
    for (const [[kind, , hint], value] of all) if (kind === "hint") sum[hint] = (sum[hint] ?? 0) + value.length;
    return sum;
  }).catch(() => ({}));

/** Restores the records of a dump. */
export const restore = (dumped) =>
  perform("readwrite", (records) => {
    records.clear();
    for (const [name, digits] of dumped) records.put(Uint8Array.from(digits.match(/../g) ?? [], (two) => parseInt(two, 16)), name);
  });

/** Damages all records of a kind. Returns their number. */
export const damage = (kind, how) =>
  perform("readwrite", (records, all) => {
    const these = all.filter(([name]) => name[0] === kind);
    for (const [name, value] of these) {
      if (how === "flipped") value[value.length >> 1] ^= 1;
      if (how === "gone") records.delete(name);
      else records.put(how === "cut" ? value.slice(0, value.length >> 1) : how === "other" ? "text" : value, name);
    }
    return these.length;
  });

let held = false;

/** Blocks all other writers until it is released. */
export async function hold() {
  held = true;
  const database = await opened();
  const transaction = database.transaction("records", "readwrite");
  const records = transaction.objectStore("records");
  const again = () => {
    if (held) records.count().onsuccess = again;
  };
  again();
  transaction.oncomplete = () => database.close();
}

export function letGo() {
  held = false;
}
