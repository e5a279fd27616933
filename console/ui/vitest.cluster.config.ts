import { defineConfig } from 'vitest/config'

// A real cluster: it needs etcd, Chromium, and the tandem command ($TANDEM).
export default defineConfig({ test: { include: ['test/*.e2e.ts'], fileParallelism: false, testTimeout: 90_000, hookTimeout: 90_000 } })
