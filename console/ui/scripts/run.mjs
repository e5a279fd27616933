// Runs a TypeScript file by Vite: node scripts/run.mjs test/screenshots.ts
import { runnerImport } from 'vite'

const file = process.argv[2]
process.argv.splice(1, 1)
await runnerImport('./' + file, { configFile: false, logLevel: 'error' })
