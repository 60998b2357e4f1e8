import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["tests/*.test.ts"],
    globalSetup: "tests/support/global.ts",
    // Far longer than any test takes: what takes longer has stalled.
    testTimeout: 600_000,
    hookTimeout: 300_000,
    maxWorkers: 2,
    // Files share a worker's modules and its Chromium; every test has a page of its own.
    isolate: false,
  },
});
