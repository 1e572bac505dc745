import { defineConfig } from "vitest/config";

/** Tests in a real browser; `cargo xtask console --browser` starts the collectors that they need. */
export default defineConfig({
  test: { include: ["tests/browser/*.test.ts"], fileParallelism: false, testTimeout: 30_000, hookTimeout: 60_000 },
});
