// A store in the browser.

import type { Name, Store } from "./store.js";

const NAME = "spirea";
const RECORDS = "records";
/** The form of what is stored; what another version of the package stored in another form is not read. */
const FORMAT = 1;
/** The longest that the browser is waited for, in milliseconds. */
const PATIENCE = 5000;

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = (event) => {
      // Else it becomes the page's own error.
      event.preventDefault();
      reject(request.error);
    };
  });
}

async function inTime<T>(awaited: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new DOMException("the browser's storage does not answer", "TimeoutError")), PATIENCE);
  });
  try {
    return await Promise.race([awaited, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** The names that begin with these parts: an array comes behind every string. */
function prefixed(prefix: Name): IDBKeyRange {
  return IDBKeyRange.bound([...prefix], [...prefix, []]);
}

/**
 * The browser's storage for this page's origin.
 * @throws whatever the browser does where it has none, or one of a later version.
 */
export async function openIndexedDb(): Promise<Store> {
  const request = indexedDB.open(NAME, FORMAT);
  request.onupgradeneeded = () => {
    const { result: database } = request;
    for (const name of database.objectStoreNames) database.deleteObjectStore(name);
    database.createObjectStore(RECORDS);
  };
  const database = await inTime(settled(request));
  // A page with a later version of the package, or who clears the storage, is not kept waiting.
  database.onversionchange = () => database.close();
  const perform = (mode: IDBTransactionMode, act: (records: IDBObjectStore) => void) =>
    inTime(
      new Promise<void>((resolve, reject) => {
        // What was removed must not be back after the machine has lost its power: a secret would be used twice.
        const transaction = database.transaction(RECORDS, mode, { durability: "strict" });
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error);
        transaction.onerror = (event) => event.preventDefault();
        act(transaction.objectStore(RECORDS));
      }),
    );
  return {
    kind: "indexeddb",
    async list(prefix) {
      let found: [Name, Uint8Array][] = [];
      await perform("readonly", (records) => {
        const [names, values] = [records.getAllKeys(prefixed(prefix)), records.getAll(prefixed(prefix))];
        values.onsuccess = () => {
          found = names.result.map((name, i) => [name as string[], values.result[i] as Uint8Array]);
        };
      });
      return found.filter(([, value]) => value instanceof Uint8Array);
    },
    write: (puts, drops) =>
      perform("readwrite", (records) => {
        for (const prefix of drops) records.delete(prefixed(prefix));
        for (const [name, value] of puts) records.put(value, [...name]);
      }),
    close: () => database.close(),
  };
}
