import { defineConfig } from 'vitest/config'

// The tests share one browser and one server, so they run one after another.
export default defineConfig({
  test: { include: ['test/*.spec.ts'], fileParallelism: false, testTimeout: 60_000, hookTimeout: 60_000 },
})
