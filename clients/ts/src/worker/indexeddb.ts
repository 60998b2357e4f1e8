// A store in the browser.

import { within } from "../time.js";
import type { Name, Store } from "./store.js";

const NAME = "spirea";
const RECORDS = "records";
/** The form of what is stored; what another version of the package stored in another form is not read. */
const FORMAT = 2;
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

function inTime<T>(awaited: Promise<T>): Promise<T> {
  return within(PATIENCE, awaited, () => new DOMException("the browser's storage does not answer", "TimeoutError"));
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
  const records = (mode: IDBTransactionMode) =>
    // What was removed must not be back after the machine has lost its power: a secret would be used twice.
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
