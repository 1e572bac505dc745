import { defineConfig } from "vitest/config";

/** Speed of the pages in a real browser; `cargo xtask bench console` starts the collector and the fleet that they need. */
export default defineConfig({
  test: { include: ["tests/speed/*.test.ts"], fileParallelism: false, testTimeout: 300_000, hookTimeout: 60_000, disableConsoleIntercept: true },
});
