// A store in the browser's IndexedDB.

import { within } from "../time.js";
import type { Name, Store } from "./store.js";

const NAME = "spirea";
const RECORDS = "records";
/** Format of the stored data. Data of another format is not read. */
const FORMAT = 2;
/** Timeout of the browser's storage, in milliseconds. */
const PATIENCE = 5000;

function settled<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = (event) => {
      // Keeps the error from the page's own error handlers.
      event.preventDefault();
      reject(request.error);
    };
  });
}

function inTime<T>(awaited: Promise<T>): Promise<T> {
  return within(PATIENCE, awaited, () => new DOMException("the browser's storage does not answer", "TimeoutError"));
}

/** Returns the range of names that begin with these parts: arrays sort after all strings. */
function prefixed(prefix: Name): IDBKeyRange {
  return IDBKeyRange.bound([...prefix], [...prefix, []]);
}

/**
 * Opens the browser's storage for this page's origin.
 * @throws the browser's error if it has no storage, or one of a later format.
 */
export async function openIndexedDb(): Promise<Store> {
  const request = indexedDB.open(NAME, FORMAT);
  request.onupgradeneeded = () => {
    const { result: database } = request;
    for (const name of database.objectStoreNames) database.deleteObjectStore(name);
    database.createObjectStore(RECORDS);
  };
  const database = await inTime(settled(request));
  // Closes at once for a page with a later version of the package, or for clearing the storage; both would wait otherwise.
  database.onversionchange = () => database.close();
  const records = (mode: IDBTransactionMode) =>
    // Removed data must not reappear after a power failure: a secret would be used twice.
    database.transaction(RECORDS, mode, { durability: "strict" }).objectStore(RECORDS);
  return {
    kind: "indexeddb",
    async names(prefix) {
      return (await inTime(settled(records("readonly").getAllKeys(prefixed(prefix))))) as string[][];
    },
    async read(name) {
      const value: unknown = await inTime(settled(records("readonly").get([...name])));
      return value instanceof Uint8Array ? value : undefined;
    },
    write: (puts, drops) =>
      inTime(
        new Promise<void>((resolve, reject) => {
          const written = records("readwrite");
          const { transaction } = written;
          transaction.oncomplete = () => resolve();
          transaction.onabort = () => reject(transaction.error);
          transaction.onerror = (event) => event.preventDefault();
          for (const prefix of drops) written.delete(prefixed(prefix));
          for (const [name, value] of puts) written.put(value, [...name]);
        }),
      ),
    close: () => database.close(),
  };
}
